"""The command that starts an agent on a host. It finds a Python, and stores the payload if it is missing."""

from __future__ import annotations

import base64
import zlib

from remote.protocol.dataclass import dataclass

MAX_FIRST_REQUEST = 16 * 1024

PYTHONS = ("python3", *(f"python3.{minor}" for minor in range(14, 8, -1)), "python")
PYTHON_FOLDERS = ("/usr/bin", "/usr/local/bin", "/opt/conda/bin")


@dataclass(frozen=True)
class BootstrapRequest:
    """The arguments of the bootstrap program. The program prints `nonce` again. `sha256` is the payload's digest.

    If `keep` is True, the payload is stored under its digest. If it is False (for a read-only command), the payload is
    kept in memory or in a temporary file. `first` is a request that is answered right after the greeting, which saves a
    round trip. It must not contain secrets, since every user of the host can read a command line. If `trusts_owners` is
    True, folders above the workdir may belong to other users; the bootstrap prints a line `OWNER` for each of these
    folders before the greeting.
    """

    nonce: str
    sha256: str
    keep: bool
    workdir: str = "~/halfstep"
    first: bytes = b""
    trusts_owners: bool = False


# Runs under Python 3.6 and newer, so that it can report a Python that is too old. The arguments of the program:
# nonce, sha256, keep, trusts_owners, and in base64 the workdir and the first request. Folders from which code is
# imported must belong to the user or root, and nobody else may write to them. Every folder and link above these
# folders must meet the same condition, since a user who can rename a folder can replace everything below it. /tmp is
# accepted because of its sticky bit. The path is judged from the root down, and each link is read only after the
# folder that contains it was judged, so nobody can replace a part that was judged. A missing folder below a folder in
# which other users can create files is created at once, also by a read-only command: otherwise another user could
# create it after the check. Write permission for a group is accepted if the group has no other members, and if it is
# root's group or has the name of the user or of the folder's owner, as on Debian and Fedora. The entry of a group lacks
# the users whose primary group it is, so it counts as shared if the accounts cannot be listed. In a user namespace,
# root and every other user without a mapping are shown as 65534. This owner is accepted like root for /, /tmp and other
# folders that belong to root on every host, and above the home folder, since the owner of such a folder can replace the
# home folder anyway; elsewhere it is another user. A group that is shown as 65534 counts as shared. The payload is used
# if its file belongs to the user and cannot be written by others, byte code if it cannot be read by others either,
# begins with the SHA-256 of the bytes that follow, and was compiled by this version of Python. Git creates files that
# others can read, so byte code from a git repository is never used. With trusts_owners, a folder above the workdir may
# belong to another user, unless its parent is writable by everybody: any user could have created a folder there. In a
# container without other users, as on rented machines, modes are not checked if the user is root: the volumes have mode
# 0777, and chmod often has no effect. A locked account without ~/.ssh, as in Ubuntu's images, does not count as a user.
# A container that halfstep created shares folders with the host, but does not show the host's users. Therefore
# container.sh checks the folders above the workdir first, and passes their owners in HALFSTEP_OWNERS. 18 is 0o022, 63
# is 0o077, 448 is 0o700, 512 is the sticky bit.
PYTHON = r"""
import sys, os
import base64
nonce, sha, keep, trusting, workdir, first = sys.argv[2:8]
workdir = base64.b64decode(workdir).decode("utf-8", "surrogateescape")
hello = b"\x02HS" + nonce.encode() + b"\x03\n"
out = os.fdopen(os.dup(1), "wb")
def write_line(text, code):
    out.write(hello + text.encode("utf-8", "replace") + b"\n"); out.flush()
    if code: sys.exit(code)
if sys.version_info < (3, 9):
    write_line("OLD %d.%d %s" % (sys.version_info[0], sys.version_info[1], sys.executable), 20)
import hashlib
if workdir.startswith("~") and os.path.expanduser(workdir) == workdir:
    write_line("HOMELESS %s" % workdir, 2)
workdir = os.path.join(os.path.expanduser("~"), os.path.expanduser(workdir))
folder = os.path.join(workdir, "payload")
path = os.path.join(folder, sha + ".pyz")
temporary = ""
me = os.geteuid()
accounts = []
def read_text(p):
    try:
        with open(p, "rb") as f: return f.read().decode("utf-8", "replace")
    except OSError: return ""
def accounts_are_listed():
    rows = [row.partition("#")[0].partition(":") for row in read_text("/etc/nsswitch.conf").split("\n")]
    sources = [source for name, _, value in rows if name.strip() == "passwd" for source in value.split()]
    nis = any(row[:1] == "+" for row in read_text("/etc/passwd").split("\n"))
    return not nis and set(sources) <= {"files", "compat", "systemd"}
def others_may_write(s):
    if s.st_mode & 2: return True
    if not s.st_mode & 16: return False
    if "HALFSTEP_CONTAINER" in os.environ or s.st_gid == 65534: return True
    try:
        import grp, pwd
        group, names = grp.getgrgid(s.st_gid), {pwd.getpwuid(uid).pw_name for uid in (me, s.st_uid)}
        if s.st_gid != 0 and group.gr_name not in names: return True
        if not accounts_are_listed(): return True
        if not accounts: accounts.extend(pwd.getpwall())
        if not {me, s.st_uid} <= {a.pw_uid for a in accounts}: return True
        if any(a.pw_gid == s.st_gid and a.pw_uid not in (me, s.st_uid, 0) for a in accounts): return True
        groups = [group] + [g for g in grp.getgrall() if g.gr_gid == s.st_gid]
        return any(set(g.gr_mem) - names - {"root"} for g in groups)
    except (ImportError, KeyError): return True
def in_container():
    if os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv"): return True
    if any(value.startswith("container=") for value in read_text("/proc/1/environ").split("\0")): return True
    if any(word in read_text("/proc/1/cgroup") for word in ("docker", "kubepods", "libpod", "lxc")): return True
    mounts = [row.split(" ") for row in read_text("/proc/self/mountinfo").split("\n") if row]
    overlay = any(row[4] == "/" and row[row.index("-") + 1] == "overlay" for row in mounts)
    return overlay and read_text("/proc/1/comm").strip() not in ("", "init", "systemd")
def is_person(uid): return uid >= 1000 and uid != 65534
def has_no_other_users():
    if me or "HALFSTEP_CONTAINER" in os.environ or not in_container() or not accounts_are_listed(): return False
    try:
        import pwd
        pids = [int(pid) for pid in os.listdir("/proc") if pid.isdigit()]
        persons = [a for a in pwd.getpwall() if is_person(a.pw_uid)]
    except (ImportError, OSError): return False
    for pid in pids:
        try:
            if is_person(os.stat("/proc/%d" % pid).st_uid): return False
        except OSError: continue
    passwords = dict(row.split(":")[:2] for row in read_text("/etc/shadow").split("\n") if ":" in row)
    for a in persons:
        locked = passwords.get(a.pw_name, a.pw_passwd)[:1] in ("!", "*") and not os.path.exists(a.pw_dir + "/.ssh")
        if not locked and os.path.basename(a.pw_shell) not in ("nologin", "false"): return False
    return True
def owner(uid):
    if unmapped(uid): return "%d:unmapped" % uid
    try:
        import pwd
        return "%d:%s" % (uid, pwd.getpwuid(uid).pw_name.replace(" ", "_"))
    except (ImportError, KeyError): return "%d:" % uid
def unmapped(uid):
    try:
        sizes = [int(row.split()[2]) for row in read_text("/proc/self/uid_map").split("\n") if row]
        return uid == int(read_text("/proc/sys/kernel/overflowuid")) and sum(sizes) < 4294967295
    except ValueError: return False
if unmapped(me): me = -1  # no file is known to be ours
home = os.path.expanduser("~")
homes = [h + "/" for h in (home, os.path.realpath(home)) if home[:1] == "/"]
def is_roots(place, uid, above):
    if not unmapped(uid) or "HALFSTEP_CONTAINER" in os.environ: return uid == 0 or unmapped(uid)
    system = place in ("/", "/home", "/tmp", "/var", "/var/tmp", "/dev", "/dev/shm")
    return above and (system or any(h != place + "/" and h.startswith(place + "/") for h in homes))
reported = set()
def judge(place, s, above):
    if s.st_uid != me and not is_roots(place, s.st_uid, above):
        if not above or others_may_write(os.lstat(os.path.dirname(place))):
            write_line("FOREIGN %s %s" % (owner(s.st_uid), place), 22)
        if trusting != "1": write_line("UNTRUSTED %s %s" % (owner(s.st_uid), place), 22)
        if place not in reported: write_line("OWNER %s %s" % (owner(s.st_uid), place), 0)
        reported.add(place)
    if s.st_mode >> 12 != 4 or above and s.st_mode & 512 or not others_may_write(s) or has_no_other_users(): return
    kind = "ABOVE" if above else "SHARED"
    if me and s.st_uid != me: kind = "THEIRS"
    write_line("%s %o:%s %s" % (kind, s.st_mode & 4095, owner(s.st_uid), place), 22)
def cannot_store(error, where):
    kind = "WORKDIR" if keep == "1" and error.errno in (1, 13, 20, 30) else "DISK"
    write_line("%s %s (%s)" % (kind, error.strerror or error, where), 22)
def status_of(place):
    try: return os.lstat(place)
    except FileNotFoundError: pass
    except OSError: return None
    try:
        if not others_may_write(os.lstat(os.path.dirname(place))) or has_no_other_users(): return None
        try: os.mkdir(place, 448)
        except FileExistsError: pass
        return os.lstat(place)
    except FileNotFoundError: return None
    except OSError as error:
        if error.errno == 30: return None  # nobody can create a folder on a read-only file system
        cannot_store(error, "creating " + place)
def judge_places():
    todo, at, links = workdir.split("/")[::-1], "", 0
    judge("/", os.lstat("/"), True)
    while todo and links < 40:
        part = todo.pop()
        if part in ("", "."): continue
        if part == "..": at = os.path.dirname(at).rstrip("/"); continue
        place = at + "/" + part
        s = status_of(place)
        link = s and s.st_mode >> 12 == 10
        if s and (link or set(todo) - {"", "."}): judge(place, s, True)
        if not link: at = place; continue
        to = os.readlink(place)
        links += 1; todo += to.split("/")[::-1]
        if to.startswith("/"): at = ""
    for place in (workdir, folder, os.path.join(workdir, "projects")):
        try: s = os.stat(place) if place == workdir else os.lstat(place)
        except OSError: continue
        judge(place, s, False)
        if keep == "1" and place != workdir and s.st_uid == me and s.st_mode >> 12 == 4 and s.st_mode & 63:
            try: os.chmod(place, 448)
            except OSError: pass
for row in os.environ.pop("HALFSTEP_OWNERS", "").split("\n"):
    if row: write_line("OWNER " + row, 0)
judge_places()
def read_own(p, others):
    try:
        with open(os.open(p, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as f:
            s, data = os.fstat(f.fileno()), f.read()
    except OSError: return b""
    ours = s.st_mode >> 12 == 8 and s.st_uid == me and s.st_nlink == 1
    return data if ours and (not s.st_mode & others or has_no_other_users()) else b""
if hashlib.sha256(read_own(path, 18)).hexdigest() != sha:
    write_line("NEED", 0)
    size = int.from_bytes(sys.stdin.buffer.read(8), "big")
    data = sys.stdin.buffer.read(size)
    if hashlib.sha256(data).hexdigest() != sha: write_line("TORN", 75)
    try:
        fd = -1
        if keep != "1":
            try:
                fd = os.memfd_create("halfstep", 0)
                path = "/proc/%d/fd/%d" % (os.getpid(), fd)
                if not os.path.exists(path): raise OSError
            except (AttributeError, OSError): fd = -1
        if fd < 0:
            import tempfile
            if keep == "1":
                before = os.umask(63)
                os.makedirs(folder, 448, exist_ok=True)
                os.umask(before)
            fd, part = tempfile.mkstemp(prefix=".hs-part-", dir=folder if keep == "1" else None)
            if keep != "1": path = temporary = part
        with os.fdopen(fd, "wb", closefd=keep == "1" or bool(temporary)) as f:
            f.write(data); f.flush()
            if keep == "1": os.fsync(fd)
        if keep == "1": os.replace(part, path); judge_places()
    except OSError as error:
        cannot_store(error, "%d bytes needed in %s" % (len(data), folder))
def is_own_byte_code(p):
    from _frozen_importlib_external import MAGIC_NUMBER
    data = read_own(p, 63)
    return data[:32] == hashlib.sha256(MAGIC_NUMBER + data[32:]).digest()
compiled = "%s.%s.zip" % (path[:-4], sys.implementation.cache_tag)
ready = path.startswith(folder) and is_own_byte_code(compiled)
if ready or keep != "1": write_to = ""
else: write_to = compiled
sys.argv = [path, "agent", nonce, temporary, workdir, first, write_to]
sys.path.insert(0, compiled if ready else path)
sys.path.append(path)
from remote.payload.__main__ import main
sys.exit(main())
"""

# The loader is one line without the characters ' ! and backslash, so that sh, bash, zsh, fish and tcsh leave it
# unchanged inside single quotes. The program is compressed, because dropbear closes the connection if a command has
# more than 9,000 characters.
LOADER = "import base64,sys,zlib;exec(zlib.decompress(base64.b64decode(sys.argv[1])))"
SHELL = (
    f"for p in {' '.join(PYTHONS)} {' '.join(f'{place}/python3' for place in PYTHON_FOLDERS)}; "
    f'do command -v $p >/dev/null 2>&1 && exec $p -I -S -B -c "{LOADER}" "$@"; done; '
    'echo "no python3 on PATH ($PATH)" >&2; exit 127'
)


def bootstrap_argv(request: BootstrapRequest, python: str = "") -> tuple[str, ...]:
    """Return the command that starts the agent. If `python` is "", the first Python that is found is used.

    Values from the user or the host are passed in base64, so a shell never interprets them.
    """
    arguments = (
        _base64(zlib.compress(PYTHON.encode(), 9)),
        request.nonce,
        request.sha256,
        "1" if request.keep else "0",
        "1" if request.trusts_owners else "0",
        _base64(request.workdir.encode("utf-8", "surrogateescape")),
        _base64(request.first),
    )
    if python:
        return (python, "-I", "-S", "-B", "-c", LOADER, *arguments)
    return ("/bin/sh", "-c", SHELL, "sh", *arguments)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii") or "-"

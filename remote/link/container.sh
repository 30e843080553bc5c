# Runs a command in the container of a host file. The container is created if needed, and stays: jobs run in it.
# Arguments: image, the prefix of the container's name, workdir, engine, shm size, gpus, user, whether folders above
# the workdir may belong to other users (1 or 0), volumes, `--`, the command.
# On failure, stderr has a line `no container (STEP ENGINE): OUTPUT`, with the output of the engine.
# Users who share an engine may have the same workdir, `~/halfstep`, but each of them has a separate container.
image=$1 name=$2-$(id -u) work=$3 wanted=$4 shm=$5 gpus=$6 user=$7 trusting=$8
shift 8
newline='
'
volumes=
while [ "$1" != -- ]; do
  volumes=$volumes$1$newline
  shift
done
shift

fail() {
  step=$1
  shift
  set -f
  echo "no container ($step ${engine##*/}):" $* >&2
  exit 126
}

expanded() {
  case $1 in
    "~" | "~/"*) printf %s "$HOME${1#"~"}" ;;
    /*) printf %s "$1" ;;
    *) printf %s "$HOME/$1" ;;
  esac
}

find_engine() {
  case $image in *.sif) kinds=apptainer ;; *) kinds="docker podman apptainer" ;; esac
  for kind in ${wanted:-$kinds}; do
    engine=$(command -v "$kind") && return
  done
  fail engine "no $(echo ${wanted:-$kinds} | sed 's/ \([a-z]*\)$/ or \1/; s/ podman/, podman/') on PATH ($PATH)"
}

# A silent connection is closed after some time, so a dot is printed every few seconds.
with_dots() {
  while sleep 5 >/dev/null 2>&1; do echo .; done &
  dots=$!
  output=$("$@" 2>&1)
  status=$?
  kill "$dots"
  return "$status"
}

wants_gpus() {
  [ "$gpus" = all ] || { [ "$gpus" = auto ] && nvidia-smi -L >/dev/null 2>&1; }
}

# Sets `mounts` to one line `source:target[:ro]` per folder. The home folder and the workdir have the paths of the host.
find_mounts() {
  (umask 077 && mkdir -p "$work")
  mounts="$HOME:$HOME$newline$work:$work$newline"
  IFS=$newline
  set -f
  for volume in $volumes; do
    mode=
    case $volume in *:ro) mode=:ro volume=${volume%:ro} ;; esac
    source=$(expanded "${volume%%:*}")
    target=$(expanded "${volume#*:}")
    [ -e "$source" ] || fail volume "$source does not exist"
    mounts=$mounts$source:$target$mode$newline
  done
  unset IFS
  set +f
}

running() { [ "$("$engine" inspect -f '{{.State.Running}}' "$name" 2>/dev/null)" = true ]; }

digest_of() {
  found=$("$engine" image inspect -f '{{.Id}}{{range .RepoDigests}} {{.}}{{end}}' "$1" 2>/dev/null) || return 1
  id=sha256:${found%% *}
  id=sha256:${id##*sha256:}
  digest=$id
  case $found in *" "*) digest=${found#* } digest=${digest%% *} ;; esac
}

# The script of the container's process 1, which adopts and reaps orphans. On `docker stop` it stops the jobs, which
# save a checkpoint, and waits for them, because the kernel kills every other process when process 1 ends. The pattern
# contains quotes, so that it does not match the command line of process 1, which is this script.
KEEP='
supervisors() {
  for folder in /proc/[0-9]*; do
    case "$(tr "\0" " " < "$folder/cmdline" 2>/dev/null)" in *".pyz super"vise" "*) echo "${folder#/proc/}" ;; esac
  done
}
end() {
  trap "" TERM
  for pid in $(supervisors); do kill -TERM "$pid" 2>/dev/null; done
  while [ -n "$(supervisors)" ]; do sleep 0.2; done
  exit 0
}
trap end TERM
while :; do sleep 3600 & wait; done'

create_container() {
  output=$("$engine" version 2>&1 >/dev/null) || fail daemon "$output"
  kind=${engine##*/}
  case $("$engine" --version 2>/dev/null) in podman*) kind=podman ;; esac
  if ! digest_of "$image"; then
    with_dots "$engine" pull -q "$image" || fail image "$output"
    digest_of "$image" || fail image "$engine pulled $image, but does not find it"
  fi
  find_mounts
  set --
  if [ "$kind" = podman ]; then
    [ "$(id -u)" = 0 ] || set -- "$@" --userns keep-id
    wants_gpus && set -- "$@" --device nvidia.com/gpu=all
  else
    # In a rootless docker, uid 0 of a container is the user who started docker.
    case $("$engine" info -f '{{.SecurityOptions}}' 2>/dev/null) in
      *name=rootless*) user=${user:-0:0} ;;
      *name=userns*) set -- "$@" --userns host ;;
    esac
    wants_gpus && set -- "$@" --gpus all
  fi
  if [ -n "$shm" ]; then set -- "$@" --shm-size "$shm"; else set -- "$@" -v /dev/shm:/dev/shm; fi
  [ ! -s /etc/machine-id ] || set -- "$@" -v /etc/machine-id:/etc/machine-id:ro
  IFS=$newline
  set -f
  for mount in $mounts; do set -- "$@" -v "$mount"; done
  unset IFS
  set +f
  who=$(id -un)
  output=$("$engine" run -d --name "$name" --label "halfstep.image=$digest" --label "halfstep.workdir=$work" \
    --user "${user:-$(id -u):$(id -g)}" --network host --uts host --security-opt label=disable \
    --stop-signal TERM --stop-timeout 120 -e HOME="$HOME" -e USER="$who" -e LOGNAME="$who" -e PYTHONNOUSERSITE=1 "$@" \
    --entrypoint /bin/sh "$image" -c "$KEEP" 2>&1) && return
  case $output in
    *"already in use"*)
      # Another command is creating the same container.
      for _ in 1 2 3 4 5 6 7 8 9 10; do
        running && return
        sleep 1
      done
      ;;
  esac
  "$engine" rm -f "$name" >/dev/null 2>&1
  fail start "$output"
}

# A container keeps the image from which it was created, even if the tag refers to another image later.
enter_container() {
  format='{{.State.Running}} {{.Image}} {{index .Config.Labels "halfstep.image"}}'
  state=$("$engine" inspect -f "$format" "$name" 2>/dev/null)
  case $state in
    "true "*) ;;
    "false "*) output=$("$engine" start "$name" 2>&1) || fail start "$output" ;;
    *)
      create_container
      state=$("$engine" inspect -f "$format" "$name" 2>/dev/null)
      ;;
  esac
  created=${state#* }
  was=${created%% *}
  newer=
  case $image in
    *@sha256:*) ;;
    *) digest_of "$image" && [ "${id#sha256:}" != "${was#sha256:}" ] && newer=$digest ;;
  esac
  exec "$engine" exec -i -e HALFSTEP_CONTAINER="${engine##*/} $name ${created#* } $newer" "$name" "$@"
}

# Apptainer runs the image as the current user, so no other user may own the image file or be able to replace it. The
# workdir may be a link that belongs to the user, for example to a larger disk.
refuse_foreign() {
  me=$(id -u)
  for path in "${work%/}" "$folder" "$folder/$name.sif" "$digest"; do
    [ -e "$path" ] || [ -L "$path" ] || continue
    [ ! -L "$path" ] || [ "$path" = "${work%/}" ] || fail foreign "$path is a symbolic link"
    [ "$(stat -c %u "$path") $(stat -L -c %u "$path")" = "$me $me" ] || fail foreign "$path belongs to another user"
    case $(stat -L -c %a "$path") in
      *[2367] | *[2367]?) has_no_other_users || fail shared "$path is writable by other users" ;;
    esac
  done
}

# A user who can rename a folder above the workdir can replace it. /tmp passes because of its sticky bit. The rules are
# those of bootstrap.py. The sticky bit does not protect the workdir itself: others could create folders in it.
refuse_shared_parents() {
  me=$(id -u) own=$(id -un) todo=$work/ at= links=0 owners=
  while [ -n "$todo" ]; do
    part=${todo%%/*} todo=${todo#*/}
    case $part in "" | .) continue ;; ..) at=${at%/*} && continue ;; esac
    path=$at/$part
    exists "$path" || create_if_shared || return 0
    uid=$(stat -c %u "$path")
    case $uid in "$me" | 0) ;; *) judge_owner ;; esac
    if [ -L "$path" ]; then
      links=$((links + 1)) target=$(readlink "$path")
      [ "$links" -lt 40 ] || return 0
      case $target in /*) at= ;; esac
      todo=$target/$todo
      continue
    fi
    at=$path
    case $(stat -c %a "$path") in [1357]???) continue ;; esac
    refuse_shared
  done
  path=${at:-/} todo= uid=$(stat -c %u "${at:-/}")
  case $uid in "$me" | 0) ;; *) judge_owner ;; esac
  refuse_shared
}

refuse_shared() {
  if others_may_write "$path" && ! has_no_other_users; then fail shared "$path is writable by other users"; fi
}

exists() { [ -e "$1" ] || [ -L "$1" ]; }

# Creates a missing folder where another user could create it after the checks.
create_if_shared() {
  others_may_write "${at:-/}" && ! has_no_other_users || return 1
  mkdir -m 700 "$path" 2>/dev/null || exists "$path" || fail workdir "$path cannot be created"
}

# A folder above the workdir may belong to another user, unless that user may have created it in a shared folder. The
# folder itself shows that there is another user, so has_no_other_users does not apply.
judge_owner() {
  who="$path belongs to another user, $(stat -c %U "$path") (uid $uid)"
  case $todo in *[!/]*) ;; *) fail foreign "$who" ;; esac
  if others_may_write "${at:-/}"; then fail foreign "$who"; fi
  [ "$trusting" = 1 ] || fail untrusted "$who"
  owners=$owners$uid:$(stat -c %U "$path" | tr ' ' _)' '$path$newline
}

others_may_write() {
  case $(stat -c %a "$1") in
    *[2367]) return 0 ;;
    *[2367]?) ! group_is_private "$1" ;;
    *) return 1 ;;
  esac
}

# True if the folder's group is named like the user, the folder's owner or root, and nobody else belongs to it. Its entry
# lacks the users whose primary group it is, so the user and the owner must be in the list of all accounts.
group_is_private() {
  group=$(stat -c %G "$1") gid=$(stat -c %g "$1") owner=$(stat -c %U "$1") owner_uid=$(stat -c %u "$1")
  case $group in "$own" | "$owner" | root) ;; *) return 1 ;; esac
  accounts_are_listed && entry=$(getent group "$gid") || return 1
  (
    for member in $( (echo "$entry" && getent group) | members_of "$gid"); do
      case $member in "$own" | "$owner" | root) ;; *) exit 1 ;; esac
    done
    listed=' '
    for account in $(getent passwd | cut -d: -f3,4); do
      uid_of=${account%:*}
      case $uid_of in "$me" | "$owner_uid" | 0) listed=$listed$uid_of' ' && continue ;; esac
      [ "${account#*:}" != "$gid" ] || exit 1
    done
    case $listed in *" $me "*) ;; *) exit 1 ;; esac
    case $listed in *" $owner_uid "*) ;; *) exit 1 ;; esac
  )
}

# True if every account is in /etc/passwd or known to systemd. A directory service such as sssd may not list its accounts.
accounts_are_listed() {
  ! grep -q '^+' /etc/passwd 2>/dev/null || return 1
  for service in $(sed -n 's/#.*//; s/^[[:space:]]*passwd[[:space:]]*://p' /etc/nsswitch.conf 2>/dev/null); do
    case $service in files | compat | systemd) ;; *) return 1 ;; esac
  done
}

# Prints the members of a group, which can have several entries with different names.
members_of() {
  while IFS=: read -r _ _ gid_of members; do
    [ "$gid_of" != "$1" ] || echo "$members" | tr , ' '
  done
}

in_container() {
  [ -e /.dockerenv ] || [ -e /run/.containerenv ] && return
  tr '\0' '\n' 2>/dev/null < /proc/1/environ | grep -q '^container=' && return
  grep -q -E 'docker|kubepods|libpod|lxc' /proc/1/cgroup 2>/dev/null && return
  case $(cat /proc/1/comm 2>/dev/null) in "" | init | systemd) return 1 ;; esac
  grep -q '^[^ ]* [^ ]* [^ ]* [^ ]* / .* - overlay ' /proc/self/mountinfo
}

is_person() { [ "$1" -ge 1000 ] && [ "$1" != 65534 ]; }

# True for root in a container without processes and accounts of other users. Locked accounts are ignored.
has_no_other_users() {
  [ "$me" = 0 ] && in_container && accounts_are_listed || return 1
  for uid_of in $(stat -c %u /proc/[0-9]* 2>/dev/null); do
    ! is_person "$uid_of" || return 1
  done
  getent passwd | while IFS=: read -r account password uid_of _ _ house shell; do
    is_person "$uid_of" || continue
    case $shell in */nologin | */false) continue ;; esac
    row=$(grep "^$account:" /etc/shadow 2>/dev/null) && password=${row#*:} && password=${password%%:*}
    case $password in "!"* | "*"*) [ -e "$house/.ssh" ] || continue ;; esac
    exit 1
  done
}

start_instance() {
  find_mounts
  mask=$(umask)
  umask 077
  mkdir -p "$folder"
  case $image in
    *.sif) [ -e "$file" ] || fail image "$file does not exist" ;;
    *://*) from=$image ;;
    *) from=docker://$image ;;
  esac
  if [ ! -e "$file" ]; then
    with_dots "$engine" pull --force "$file.part" "$from" || fail image "$output"
    mv "$file.part" "$file"
  fi
  with_dots sha256sum "$file" || fail image "$output"
  echo "${output%% *}" > "$digest"
  umask "$mask"
  set -- --cleanenv
  wants_gpus && set -- "$@" --nv
  IFS=$newline
  set -f
  for mount in $mounts; do set -- "$@" --bind "$mount"; done
  unset IFS
  set +f
  output=$("$engine" instance start "$@" "$file" "$name" 2>&1) || fail start "$output"
}

# A pulled image is stored as a file in the workdir. Apptainer itself mounts the home folder, and shares /dev/shm.
enter_instance() {
  [ -z "$user" ] || fail user "apptainer runs everything as you; remove \`user\`"
  folder=$work/containers
  digest=$folder/$name.sha256
  case $image in
    *.sif) file=$(expanded "$image") ;;
    *) file=$folder/$name.sif ;;
  esac
  (umask 077 && mkdir -p "$work")
  refuse_foreign
  "$engine" instance list "$name" 2>/dev/null | grep -q "^$name " || start_instance
  newer=
  [ "$file" -nt "$digest" ] && newer=another-file
  exec "$engine" exec --cleanenv --pwd / \
    --env "PYTHONNOUSERSITE=1,HALFSTEP_CONTAINER=apptainer $name sha256:$(cat "$digest") $newer" "instance://$name" "$@"
}

find_engine
work=$(expanded "$work")
refuse_shared_parents
[ -z "$owners" ] || set -- env HALFSTEP_OWNERS="$owners" "$@"
if [ "${engine##*/}" = apptainer ]; then enter_instance "$@"; else enter_container "$@"; fi

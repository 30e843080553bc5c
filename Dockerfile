# A host as an image: halfstep with its trainer, and an sshd that accepts only keys, run by a user who is not root.
#
#   docker build -t halfstep .                                            on a CUDA runtime
#   docker compose build box                                              on Debian
#   docker run IMAGE pipeline run --host local --config tiny
#   docker run -p 2222:2222 -e AUTHORIZED_KEY="$(cat ~/.ssh/id_ed25519.pub)" --gpus all --shm-size 8g IMAGE
# A base image by its digest is the same image tomorrow; the tag before it is for people.
ARG BASE_IMAGE=nvidia/cuda:12.8.1-runtime-ubuntu24.04@sha256:ebef3c171eeef0298e4eb2e4be843105edf3b8b0ac45e0b43acee358e8046867
FROM ${BASE_IMAGE}

RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      ca-certificates openssh-server python3 python3-venv rsync tini \
 && rm -rf /var/lib/apt/lists/* /etc/ssh/ssh_host_*

RUN useradd --create-home --shell /bin/bash --uid 10001 --password '*' halfstep \
 && mkdir -p /home/halfstep/keys /home/halfstep/project /home/halfstep/halfstep /home/halfstep/.cache/huggingface \
 && chown -R halfstep:halfstep /home/halfstep

# pip installs only files with a digest in REQUIREMENTS (`make image-requirements`). If `wheels/` exists, it looks there too.
ARG PIP_OPTIONS=""
ARG REQUIREMENTS=image-requirements.txt
COPY image-requirements.txt wheel[s] /wheels/
RUN python3 -m venv /opt/halfstep \
 && /opt/halfstep/bin/pip install --no-cache-dir --find-links /wheels ${PIP_OPTIONS} \
      --require-hashes --requirement "/wheels/${REQUIREMENTS}" \
 && rm -rf /wheels

COPY pyproject.toml README.md LICENSE /build/
COPY halfstep_cli /build/halfstep_cli
COPY pipeline /build/pipeline
COPY fixers /build/fixers
COPY remote /build/remote
COPY configs /build/configs
COPY docs /build/docs
COPY examples/tiny-speech /build/examples/tiny-speech
RUN /opt/halfstep/bin/pip install --no-cache-dir --no-index --no-deps --no-build-isolation /build \
 && ln -s /opt/halfstep/bin/pipeline /usr/local/bin/pipeline \
 && rm -rf /build

COPY remote/image/box /usr/local/bin/box
COPY remote/image/sshd_config /etc/halfstep/sshd_config

USER halfstep
WORKDIR /home/halfstep/project
ENV PATH=/opt/halfstep/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HF_HOME=/home/halfstep/.cache/huggingface
VOLUME ["/home/halfstep/keys", "/home/halfstep/halfstep", "/home/halfstep/.cache/huggingface"]
EXPOSE 2222
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/tini", "--", "/usr/local/bin/box"]

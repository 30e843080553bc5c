# A host as an image: halfstep with its trainer, and an sshd that accepts only keys, run by a user who is not root.
#
#   docker build -t halfstep .                                            on a CUDA runtime
#   docker build -t halfstep --build-arg BASE_IMAGE=debian:bookworm .     CPU only
#   docker run IMAGE pipeline run --host local --config tiny
#   docker run -p 2222:2222 -e AUTHORIZED_KEY="$(cat ~/.ssh/id_ed25519.pub)" --gpus all --shm-size 8g IMAGE
ARG BASE_IMAGE=nvidia/cuda:12.8.1-runtime-ubuntu24.04
FROM ${BASE_IMAGE}

RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      ca-certificates openssh-server python3 python3-venv rsync tini \
 && rm -rf /var/lib/apt/lists/* /etc/ssh/ssh_host_*

RUN useradd --create-home --shell /bin/bash --uid 10001 --password '*' halfstep \
 && mkdir -p /home/halfstep/keys /home/halfstep/project /home/halfstep/halfstep /home/halfstep/.cache/huggingface \
 && chown -R halfstep:halfstep /home/halfstep

# If `wheels/` exists, pip installs from it too; otherwise, only from the package index.
COPY pyproject.toml README.md LICENSE constraints.txt wheel[s] /build/
COPY halfstep_cli /build/halfstep_cli
COPY pipeline /build/pipeline
COPY fixers /build/fixers
COPY remote /build/remote
COPY configs /build/configs
COPY docs /build/docs
COPY examples/tiny-speech /build/examples/tiny-speech
ARG PIP_OPTIONS=""
RUN python3 -m venv /opt/halfstep \
 && /opt/halfstep/bin/pip install --no-cache-dir --find-links /build ${PIP_OPTIONS} \
      --constraint /build/constraints.txt '/build[train]' \
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

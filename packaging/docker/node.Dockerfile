# A node: sandboxes. Runs as root in a privileged container, with the host's cgroups;
# see compose.yaml for all that it needs.
#   just build
#   docker build -f packaging/docker/node.Dockerfile -t belljar-node .
# More tiers and tools: --build-arg PACKAGES="crun qemu-system-x86 e2fsprogs erofs-utils
#   mmdebstrap python3-pip npm"; runsc is put beside by yourself.
FROM debian:bookworm-slim
ARG PACKAGES="crun"
# tini is pid 1: orphans of the node's children are nobody's otherwise.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates python3 tini util-linux ${PACKAGES} \
 && rm -rf /var/lib/apt/lists/*
ARG BELLJAR=target/release/belljar
COPY --chmod=0755 ${BELLJAR} /usr/bin/belljar
VOLUME /var/lib/belljar
EXPOSE 3100 9301
ENTRYPOINT ["/usr/bin/tini", "--", "/usr/bin/belljar"]
CMD ["node", "--help"]

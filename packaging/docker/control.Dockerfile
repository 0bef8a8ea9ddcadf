# Control: the API, admission and placement. Nothing of it needs root.
#   just build
#   docker build -f packaging/docker/control.Dockerfile -t belljar-control .
FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates \
 && rm -rf /var/lib/apt/lists/*
ARG BELLJAR=target/release/belljar
COPY --chmod=0755 ${BELLJAR} /usr/bin/belljar
# Volumes that are mounted here begin with this owner.
RUN install -d -o 65532 -g 65532 /var/lib/belljar /var/lib/belljar/control /var/lib/belljar/objects
ENV BELLJAR_DATA=/var/lib/belljar/control
USER 65532:65532
EXPOSE 3000 9300
ENTRYPOINT ["/usr/bin/belljar"]
CMD ["control", "--help"]

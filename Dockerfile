# syntax=docker/dockerfile:1
# The image holds Python, Stowage and what both load, and nothing else: no shell, no package manager.
#
# A tag may mean something else tomorrow: `make image-push` looks up the digest behind it and hands
# that over, docs/releasing.md says more.
ARG BASE=python:3.13-slim-bookworm

# Wheels, where the build may not reach a package index: --build-context wheels=FOLDER.
FROM scratch AS wheels

FROM ${BASE} AS build
WORKDIR /src
RUN python3 -m venv /opt/stowage
COPY requirements.lock ./
ARG PIP_NO_INDEX=
RUN --mount=type=bind,from=wheels,target=/wheels \
    /opt/stowage/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes --only-binary=:all: --find-links=/wheels -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY deploy ./deploy
COPY scheduler ./scheduler
# The repository is not in the context; `make image` works the version out of its tags.
ARG VERSION=0.0.0
RUN SETUPTOOLS_SCM_PRETEND_VERSION=${VERSION} /opt/stowage/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation . \
    && /opt/stowage/bin/python -m compileall -q /opt/stowage/lib
RUN /opt/stowage/bin/python deploy/image/rootfs.py /opt/stowage /rootfs

FROM scratch AS image
ARG BASE
ARG VERSION=0.0.0
LABEL org.opencontainers.image.title="stowage" \
      org.opencontainers.image.description="A Kubernetes scheduler in Python" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="${BASE}" \
      org.opencontainers.image.version="${VERSION}"
ENV PATH=/opt/stowage/bin PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
COPY --from=build /rootfs /
USER 65532:65532
ENTRYPOINT ["/opt/stowage/bin/python", "-m", "scheduler"]

FROM image AS operator
CMD ["operator"]

# The last one is what a build without --target gives.
FROM image AS daemon
CMD ["run"]

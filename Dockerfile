# Two stages: dependencies are built where there is a compiler's worth of tools, and run without.
ARG PYTHON=3.11-slim-bookworm

FROM python:${PYTHON} AS build
WORKDIR /src
RUN python -m venv /opt/stowage
COPY requirements.lock ./
RUN /opt/stowage/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY scheduler ./scheduler
RUN /opt/stowage/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation . \
    && /opt/stowage/bin/python -m compileall -q /opt/stowage/lib

FROM python:${PYTHON}
ARG VERSION=dev
LABEL org.opencontainers.image.title="stowage" \
      org.opencontainers.image.description="A Kubernetes scheduler in Python" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
ENV PATH=/opt/stowage/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
COPY --from=build /opt/stowage /opt/stowage
USER 65532:65532
ENTRYPOINT ["stowage"]
CMD ["run"]

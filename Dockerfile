# The sandbox as an image, for any store: docker build -t invoice-sandbox .
# The digest is that of the index of all platforms. To refresh it, take the newest tag 3.11.N-slim and what
# `docker buildx imagetools inspect python:3.11.N-slim` prints as its digest. --build-arg BASE=... takes another.
ARG BASE=python:3.11.17-slim@sha256:45037981b62b34b44602584fccbc4d884d5f7dc92c7ee86bb38a698a79fe1e51
FROM ${BASE} AS build
WORKDIR /src
COPY pyproject.toml hatch_build.py zensical.toml conventions.yaml README.md CHANGELOG.md LICENSE ./
COPY docs ./docs
COPY requirements ./requirements
COPY invoice_sandbox ./invoice_sandbox
COPY openapi ./openapi
COPY handlers ./handlers
COPY domain ./domain
COPY fixtures ./fixtures
COPY scenarios ./scenarios
COPY acceptance ./acceptance
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/sandbox \
    && /opt/sandbox/bin/pip install --require-hashes -r requirements/postgresql.txt \
    && pip install --require-hashes -r requirements/build.txt \
    && pip wheel --no-deps --no-build-isolation --wheel-dir /wheel . \
    && /opt/sandbox/bin/pip install --no-deps --no-index /wheel/*.whl

FROM ${BASE}
LABEL org.opencontainers.image.title="Invoice Liquidity Sandbox" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin sandbox
COPY --from=build /opt/sandbox /opt/sandbox
ENV PATH=/opt/sandbox/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    INVOICE_SANDBOX_HOST=0.0.0.0 \
    INVOICE_SANDBOX_PORT=8080
USER 10001
WORKDIR /tmp
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=15s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen(f\"http://127.0.0.1:{os.environ['INVOICE_SANDBOX_PORT']}/sandbox/health\", timeout=2)"]
ENTRYPOINT ["invoice-sandbox"]
CMD ["serve"]

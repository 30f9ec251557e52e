# The sandbox as an image: docker build -t invoice-sandbox .
# The digest of the base image is not known here: docker build --build-arg BASE=python@sha256:... pins it.
ARG BASE=python:3.11-slim
FROM ${BASE} AS build
WORKDIR /src
COPY pyproject.toml constraints.txt requirements.txt conventions.yaml README.md LICENSE ./
COPY invoice_sandbox ./invoice_sandbox
COPY openapi ./openapi
COPY handlers ./handlers
COPY domain ./domain
COPY fixtures ./fixtures
COPY scenarios ./scenarios
COPY acceptance ./acceptance
RUN python -m venv /opt/sandbox \
    && /opt/sandbox/bin/pip install --no-cache-dir --disable-pip-version-check \
        --require-hashes -r requirements.txt \
    && PIP_CONSTRAINT=constraints.txt /opt/sandbox/bin/pip install --no-cache-dir \
        --disable-pip-version-check --no-deps .

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

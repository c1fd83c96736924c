# One image for both services: `rollcall collector` and `rollcall proxy`.
ARG PYTHON_IMAGE=python:3.13-slim

FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY collector collector
COPY proxy proxy
COPY runner runner
RUN ["python", "-m", "venv", "--without-pip", "/opt/rollcall"]
RUN ["python", "-m", "pip", "--python", "/opt/rollcall/bin/python", "--no-cache-dir", "install", "--quiet", ".[postgresql]"]

FROM ${PYTHON_IMAGE}
COPY --from=build /opt/rollcall /opt/rollcall
# A named volume takes over the owner of the folder that it covers.
RUN ["install", "-d", "-o", "10001", "-g", "10001", "/var/lib/rollcall"]
ENV PATH=/opt/rollcall/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONUNBUFFERED=1 \
    HEALTH_URL=http://127.0.0.1:7078/readyz
WORKDIR /var/lib/rollcall
USER 10001:10001
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen(os.environ['HEALTH_URL'], timeout=4)"]
ENTRYPOINT ["rollcall"]
CMD ["collector"]

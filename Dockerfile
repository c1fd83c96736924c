# One image for both services, `rollcall collector` and `rollcall proxy`. It runs as any user, on a read-only root.
ARG PYTHON_IMAGE=python:3.13-slim

FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
RUN ["python", "-m", "venv", "--without-pip", "/opt/rollcall"]
RUN ["python", "-m", "venv", "--without-pip", "/opt/build"]
COPY requirements.lock requirements-build.lock ./
RUN ["python", "-m", "pip", "--python", "/opt/build/bin/python", "--no-cache-dir", "install", "--quiet", \
     "--require-hashes", "-r", "requirements-build.lock"]
RUN ["python", "-m", "pip", "--python", "/opt/rollcall/bin/python", "--no-cache-dir", "install", "--quiet", \
     "--require-hashes", "-r", "requirements.lock"]
COPY pyproject.toml README.md LICENSE ./
COPY collector collector
COPY proxy proxy
COPY runner runner
RUN ["python", "-m", "pip", "--python", "/opt/build/bin/python", "wheel", "--quiet", "--no-build-isolation", \
     "--no-deps", "--wheel-dir", "/wheel", "."]
RUN ["python", "-m", "pip", "--python", "/opt/rollcall/bin/python", "--no-cache-dir", "install", "--quiet", \
     "--no-deps", "--no-index", "--find-links", "/wheel", "gym-rollcall"]
# What goes on PYTHONPATH of a Gym in another container, at a place without a Python's version in it.
RUN ["cp", "--recursive", "runner/rollcall_attach", "/opt/rollcall/attach"]

FROM ${PYTHON_IMAGE}
# Nothing is installed from here on: pip goes from what the image shows.
RUN ["python", "-c", "import pip, shutil; shutil.rmtree(pip.__path__[0])"]
COPY --from=build /opt/rollcall /opt/rollcall
# A named volume takes over the mode of the folder that it covers first, and the user is chosen where it is run.
RUN ["install", "--directory", "--mode=1777", "/var/lib/rollcall", "/run/postgresql"]
ENV PATH=/opt/rollcall/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONUNBUFFERED=1 \
    XDG_STATE_HOME=/var/lib \
    HEALTH_URL=http://127.0.0.1:7078/readyz
WORKDIR /var/lib/rollcall
USER 10001:10001
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen(os.environ['HEALTH_URL'], timeout=4)"]
ENTRYPOINT ["rollcall"]
CMD ["collector"]

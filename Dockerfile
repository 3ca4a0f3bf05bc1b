# syntax=docker/dockerfile:1
# The `swarm` command. For CPUs, or with the CUDA libraries that PyPI's torch brings along:
#   docker build --tag swarm:cpu .
#   docker build --tag swarm:cuda --build-arg TORCH_INDEX=https://pypi.org/simple .
#   docker run --volume /srv/swarm:/shared --env NODE_ID=anna swarm:cpu join /shared
#   docker run --gpus all --volume /srv/swarm:/shared --env NODE_ID=anna swarm:cuda join /shared
# The folder has to be writable for user 10001.
FROM python:3.11-slim AS build
ARG TORCH="torch==2.13.0"
ARG TORCH_INDEX="https://download.pytorch.org/whl/cpu"
RUN python -m venv /opt/swarm
ENV PATH=/opt/swarm/bin:$PATH
# hadolint ignore=DL3013
RUN pip install --no-cache-dir --index-url "$TORCH_INDEX" "$TORCH"
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY swarm swarm
COPY services services
# hadolint ignore=DL3013
RUN pip install --no-cache-dir ".[bucket,signing]"

FROM python:3.11-slim
RUN useradd --create-home --uid 10001 swarm && install --directory --owner=swarm /shared
COPY --from=build /opt/swarm /opt/swarm
ENV PATH=/opt/swarm/bin:$PATH SWARM_PATH=/shared PYTHONUNBUFFERED=1
USER 10001
WORKDIR /home/swarm
VOLUME /shared
HEALTHCHECK --interval=30s --timeout=15s --start-period=10m --retries=4 CMD ["python", "-P", "-m", "services.health"]
ENTRYPOINT ["swarm"]

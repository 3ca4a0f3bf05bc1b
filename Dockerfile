# The image of docker-compose.test.yml: the `swarm` command.
FROM python:3.11-slim
WORKDIR /swarm
COPY pyproject.toml README.md LICENSE ./
COPY swarm swarm
COPY services services
ARG TORCH="torch==2.13.0"
RUN pip install --no-cache-dir "$TORCH" && pip install --no-cache-dir .
ENTRYPOINT ["swarm"]

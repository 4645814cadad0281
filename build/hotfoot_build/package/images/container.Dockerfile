# A server on port 8080:  docker build --platform linux/arm64 -t NAME . && docker run -p 8080:8080 NAME     (or linux/amd64)
# What follows NAME are the server's options, or other artifacts than the bundle's:  docker run NAME --log-requests
FROM python:${PYTHON}-slim
# one layer of the image each, what changes least first: a registry is sent only those that it has not
COPY layers/runtime/ /opt/
COPY layers/tokenizer/ /opt/
COPY layers/model/ /opt/
COPY code/ /srv/
ENV PYTHONPATH=/srv:/opt/python HOTFOOT_ARTIFACT=/opt/hotfoot/model
# Debian's nobody, by number: Kubernetes' runAsNonRoot cannot tell that a name is not root's
USER 65534:65534
EXPOSE 8080
# no shell in between: Python is process 1, and the one that is told to stop
ENTRYPOINT ["python", "-m", "hotfoot.server", "--host", "0.0.0.0", "--port", "8080"]

# AWS's own base has the runtime client and the entry point. Lambda takes one manifest and no index of several, so outside of the CDK:
#   docker build --provenance=false --platform linux/arm64 .     (or linux/amd64: as the bundle was made)
FROM public.ecr.aws/lambda/python:${PYTHON}
# one layer of the image each, what changes least first: a registry is sent only those that it has not
COPY layers/runtime/ /opt/
COPY layers/tokenizer/ /opt/
COPY layers/model/ /opt/
COPY code/ /var/task/
# no PYTHONPATH: without one AWS's runtime looks into /var/task and /opt/python before its own packages, with one after some of them
CMD ["hotfoot.handlers.http.handler"]

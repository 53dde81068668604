"""Makes ``twistd logd`` and ``twistd logd-registry`` known; imports nothing but the name of where to find it."""

from twisted.application.service import ServiceMaker

logd = ServiceMaker("logd", "logd.tap", "A broker that collects and delivers high volumes of log data.", "logd")
logd_registry = ServiceMaker(
    "logd-registry", "logd.registry_tap", "A schema registry with Confluent's REST interface.", "logd-registry"
)

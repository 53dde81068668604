"""Makes ``twistd logd-mirror`` known; imports nothing but the name of where to find it."""

from twisted.application.service import ServiceMaker

logd_mirror = ServiceMaker(
    "logd-mirror", "logd.mirror.tap", "Copies topics from one logd cluster to another.", "logd-mirror"
)

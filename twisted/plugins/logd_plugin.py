"""Makes ``twistd logd`` known; imports nothing but the name of where to find it."""

from twisted.application.service import ServiceMaker

logd = ServiceMaker("logd", "logd.tap", "A broker that collects and delivers high volumes of log data.", "logd")

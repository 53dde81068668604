"""Native clients that are users by their certificates, which endpoints name, at a real broker."""

from __future__ import annotations

import os
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.testing.processes.broker import BrokerProcess, free_port
from logd.testing.processes.python_process import run_python
from tests.integration.peers import PATIENCE
from tests.integration.security.test_users import LOGD, certificates


class NativeCertificatesTests(SynchronousTestCase):
    """The command, whose user is in no setting but its certificate."""

    if find_spec("OpenSSL") is None:
        skip = "pyOpenSSL is not installed: pip install 'logd[tls]'"

    def test_the_certificate_of_an_endpoint_is_the_user(self) -> None:
        """Ann is a superuser; without a certificate one is nobody, and one of another authority is not accepted."""
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            certificates(folder)
            (folder / "roots").mkdir()
            (folder / "roots" / "ca.pem").write_bytes((folder / "ca.pem").read_bytes())
            port = free_port()
            keys = f"privateKey={folder}/server.key:certKey={folder}/server.pem"
            settings = (
                "security.required=true",
                "security.superusers=ann",
                f"security.client.authorities={folder}/ca.pem",
            )
            options = [each for setting in settings for each in ("--set", setting)]
            broker = BrokerProcess(
                f"{folder}/data", (*options, f"--listen=ssl:{port}:{keys}:interface=127.0.0.1"), port=port
            )
            with broker:

                def logd(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
                    endpoint = f"tls:localhost:{port}:trustRoots={folder}/roots"
                    if name:
                        endpoint += f":certificate={folder}/{name}.pem:privateKey={folder}/{name}.key"
                    env = {**os.environ, "LOGD_BROKER": endpoint}
                    return run_python([*LOGD, *arguments], capture_output=True, text=True, env=env, timeout=PATIENCE)

                made = logd("ann", "topics", "create", "t")
                self.assertEqual(made.returncode, 0, made.stderr)
                nobody = logd("", "topics", "create", "u")
                self.assertEqual(nobody.returncode, 1)
                self.assertIn("anonymous may not create topic 'u'", nobody.stderr)
                self.assertNotEqual(logd("mallory", "topics", "create", "v").returncode, 0)
                self.assertEqual(logd("ann", "topics", "list").stdout.split(), ["t", "1"])
            self.assertNotIn("Warning", Path(broker.log).read_text(encoding="utf-8"))

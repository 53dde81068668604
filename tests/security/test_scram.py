"""Tests of SCRAM: both sides, what a broker keeps, and exchanges that are wrong."""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from hashlib import pbkdf2_hmac

from twisted.trial.unittest import SynchronousTestCase

from logd.errors import AuthenticationFailed
from logd.security.scram import (
    HASHES,
    LEAST_ITERATIONS,
    MECHANISMS,
    MOST_BYTES,
    ClientExchange,
    ServerExchange,
    Verifier,
)

SALT = b"salt of 16 bytes"
VERIFIERS = {each: Verifier.of(each, "secret", SALT, LEAST_ITERATIONS) for each in MECHANISMS}


def server(mechanism: str = "SCRAM-SHA-256", verifier: Verifier | None = None) -> ServerExchange:
    """Return the broker's side for a user with the password ``secret``."""
    return ServerExchange(mechanism, lambda name: verifier or VERIFIERS[mechanism])


class ExchangeTests(SynchronousTestCase):
    """A client and a broker."""

    def test_the_right_password_proves_the_user_and_the_broker(self) -> None:
        """By both mechanisms; names with the characters that SCRAM escapes included."""
        for mechanism in MECHANISMS:
            for user in ("ann", "ann=1", "zoë"):
                broker, client = server(mechanism), ClientExchange(mechanism, user, "secret")
                client.check(broker.receive(client.answer(broker.receive(client.first()))))
                self.assertEqual((broker.done, broker.user), (True, user))

    def test_a_wrong_password_is_refused(self) -> None:
        """And the exchange cannot go on."""
        broker, client = server(), ClientExchange("SCRAM-SHA-256", "ann", "Secret")
        proof = client.answer(broker.receive(client.first()))
        for _ in range(2):
            with self.assertRaises(AuthenticationFailed):
                broker.receive(proof)
        self.assertFalse(broker.done)

    def test_a_replayed_exchange_is_refused(self) -> None:
        """The broker's part of the nonce is another one each time."""
        broker, client = server(), ClientExchange("SCRAM-SHA-256", "ann", "secret")
        first = client.first()
        proof = client.answer(broker.receive(first))
        broker.receive(proof)
        again = server()
        again.receive(first)
        with self.assertRaises(AuthenticationFailed):
            again.receive(proof)
        with self.assertRaises(AuthenticationFailed):
            broker.receive(proof)  # an exchange that is done

    def test_a_client_that_repeats_its_nonce_is_let_in_with_the_right_password(self) -> None:
        """As librdkafka before 2.2 does; recorded, repeated once more, or with another password it is refused."""
        tried = (("secret", "{c}{s}", True), ("wrong", "{c}{s}", False), ("secret", "{c}{c}{s}", False))
        for password, nonces, fine in tried:
            for mechanism in MECHANISMS:
                broker, again = server(mechanism), server(mechanism)
                first = b"n,,n=ann,r=abcdefgh"
                challenge = broker.receive(first)
                nonce = nonces.format(c="abcdefgh", s=challenge.decode().partition(",")[0].removeprefix("r="))
                proof = _final(mechanism, password, first, challenge, nonce)
                if not fine:
                    self.refused(broker, proof)
                    continue
                broker.receive(proof)
                self.assertTrue(broker.done)
                again.receive(first)
                self.refused(again, proof)

    def test_every_truncated_and_changed_message_is_refused(self) -> None:
        """Nothing else is raised, and nobody is let in."""
        client = ClientExchange("SCRAM-SHA-256", "ann", "secret")
        first = client.first()
        broker = server()
        proof = client.answer(broker.receive(first))
        for stop in range(first.index(b",r=") + 3):
            self.refused(server(), first[:stop])
        for stop in range(len(proof)):
            begun = server()
            begun.receive(first)
            self.refused(begun, proof[:stop])
        for place in range(len(proof)):
            begun = server()
            begun.receive(first)
            self.refused(begun, proof[:place] + bytes((proof[place] ^ 1,)) + proof[place + 1 :])

    def test_hostile_first_messages_are_refused(self) -> None:
        """Channel binding that the broker has not, acting for others, extensions, no text, and floods."""
        for message in (
            *(b"", b",", b",,", b"n,,", b"n,,n=ann", b"n,,r=x", b"\xff\xfe", b"n,,n=,r=x", b"n,,n=ann,r="),
            *(b"p=tls-unique,,n=ann,r=x", b"n,a=root,n=ann,r=x", b"n,,m=x,n=ann,r=x", b"n,,n=a=b,r=x"),
            *(b"n,,n=ann,r=x" + b"x" * MOST_BYTES, b"n,,n=ann,n=bob,r=x", b"n,,n=an\0n,r=x", b"n,,n=a\x7f,r=x"),
        ):
            self.refused(server(), message)

    def test_a_false_broker_is_found_out(self) -> None:
        """One that lets in whoever comes cannot prove that it knows the user."""
        client = ClientExchange("SCRAM-SHA-256", "ann", "secret")
        liar = server(verifier=Verifier.of("SCRAM-SHA-256", "other", SALT, LEAST_ITERATIONS))
        client.answer(liar.receive(client.first()))
        for proof in (b"v=" + b64encode(bytes(32)), b"e=other-error", b"", b"v=", b"\xff"):
            with self.assertRaises(AuthenticationFailed):
                client.check(proof)

    def test_a_challenge_that_makes_no_sense_is_refused(self) -> None:
        """Too few rounds, so many that the client would be kept busy, a foreign nonce, a short salt."""
        salt = b64encode(SALT).decode()
        for text in ("", "r=x", "r={n}Y,s={s},i=1", "r={n}Y,s={s},i=9999999", "r={n}Y,s={s},i=" + "9" * 5000):
            self.not_answered(text, salt)
        for text in ("r=fremd,s={s},i=4096", "r={n},s={s},i=4096", "r={n}Y,s=YQ==,i=4096", "e=unknown-user"):
            self.not_answered(text, salt)

    def not_answered(self, text: str, salt: str) -> None:
        """Check that a client does not answer a challenge; ``{n}`` is its own nonce."""
        client = ClientExchange("SCRAM-SHA-256", "ann", "secret")
        nonce = client.first().decode().partition(",r=")[2]
        with self.assertRaises(AuthenticationFailed):
            client.answer(text.format(n=nonce, s=salt).encode())

    def refused(self, broker: ServerExchange, message: bytes) -> None:
        """Check that a message is refused."""
        with self.assertRaises(AuthenticationFailed, msg=repr(message[:100])):
            broker.receive(message)
        self.assertFalse(broker.done)


class VerifierTests(SynchronousTestCase):
    """The verifier that a broker keeps."""

    def test_it_matches_its_password_alone(self) -> None:
        """Also where the password has characters that no password may have."""
        for mechanism, verifier in VERIFIERS.items():
            self.assertTrue(verifier.matches(mechanism, "secret"))
            for wrong in ("", "Secret", "secret ", "\0", "\ud800", "x" * 300):
                self.assertFalse(verifier.matches(mechanism, wrong), wrong)

    def test_it_survives_json(self) -> None:
        """And neither the password nor the keys are shown by repr."""
        for mechanism, verifier in VERIFIERS.items():
            self.assertEqual(Verifier.from_json(mechanism, verifier.to_json()), verifier)
            self.assertNotIn("key", repr(verifier))

    def test_json_that_is_none_is_refused(self) -> None:
        """Each field missing, of another type, or out of range."""
        good = VERIFIERS["SCRAM-SHA-256"].to_json()
        for name in good:
            for bad in (None, 1, "", "%", True, "YQ==", 10**9, 4096.0):
                with self.assertRaises((ValueError, KeyError, TypeError), msg=f"{name} = {bad!r}"):
                    Verifier.from_json("SCRAM-SHA-256", {**good, name: bad})
            with self.assertRaises(KeyError):
                Verifier.from_json("SCRAM-SHA-256", {key: good[key] for key in good if key != name})

    def test_a_false_verifier_is_the_same_each_time_and_for_nobody_else(self) -> None:
        """So that a second attempt does not show that the user does not exist."""
        one = Verifier.fake("SCRAM-SHA-256", "ann", b"secret of brokers")
        self.assertEqual(one, Verifier.fake("SCRAM-SHA-256", "ann", b"secret of brokers"))
        others = [
            Verifier.fake("SCRAM-SHA-256", "bob", b"secret of brokers"),
            Verifier.fake("SCRAM-SHA-512", "ann", b"secret of brokers"),
            Verifier.fake("SCRAM-SHA-256", "ann", b"another"),
        ]
        self.assertEqual(len({one.salt, *(each.salt for each in others)}), 4)
        real = VERIFIERS["SCRAM-SHA-256"]
        self.assertEqual([len(each) for each in (one.salt, one.stored_key)], [len(real.salt), len(real.stored_key)])


def _final(mechanism: str, password: str, first: bytes, challenge: bytes, nonce: str) -> bytes:
    """Return a last message with any nonce and the proof that belongs to it (RFC 5802, section 3)."""
    name = HASHES[mechanism]
    salt, iterations = re.findall(r"s=([^,]+),i=(\d+)", challenge.decode())[0]
    salted = pbkdf2_hmac(name, password.encode(), b64decode(salt), int(iterations))
    client_key = hmac.digest(salted, b"Client Key", name)
    without_proof = f"c=biws,r={nonce}".encode()
    signed = b",".join((first.removeprefix(b"n,,"), challenge, without_proof))
    signature = hmac.digest(hashlib.new(name, client_key).digest(), signed, name)
    proof = bytes(one ^ two for one, two in zip(client_key, signature, strict=True))
    return without_proof + b",p=" + b64encode(proof)

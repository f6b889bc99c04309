"""kafka-python (2.3) as the probe uses it: protocol classes and SASL mechanisms. Python 3.6 syntax."""

import importlib
import importlib.util
import logging
import os
import sys
import types
from typing import Any, Dict, Optional

PACKAGES = ("kafka", "kafka.protocol", "kafka.sasl")
MODULES = ("api_versions", "metadata", "list_offsets", "sasl_handshake", "sasl_authenticate", "admin")
SASL_CLASSES = {
    "PLAIN": ("plain", "SaslMechanismPlain"),
    "SCRAM-SHA-256": ("scram", "SaslMechanismScram"),
    "SCRAM-SHA-512": ("scram", "SaslMechanismScram"),
    "GSSAPI": ("gssapi", "SaslMechanismGSSAPI"),
}


def load_kafka(path: Optional[str] = None) -> None:
    """Make kafka-python importable, from the zip `path` or as installed. Raises ImportError.

    The packages' own __init__ files are left out: they import every client, which takes 0.6 s more.
    """
    if path:
        sys.path.insert(0, path)
    spec = importlib.util.find_spec("kafka")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("no kafka package in {}".format(path or "the Python path"))
    root = os.path.dirname(next(iter(spec.submodule_search_locations)))
    for name in PACKAGES:
        package = types.ModuleType(name)
        package.__path__ = [os.path.join(root, *name.split("."))]
        sys.modules[name] = package
    for name in MODULES:
        importlib.import_module("kafka.protocol." + name)
    # As its __init__ would have done: an unconfigured log prints to stderr.
    logging.getLogger("kafka").addHandler(logging.NullHandler())


def load_sasl(mechanism: str) -> None:
    """Import what a mechanism needs, before the user changes. Raises ImportError."""
    importlib.import_module("kafka.sasl." + SASL_CLASSES[mechanism][0])


def request(module: str, version: int, *fields: Any) -> Any:
    """A request of kafka-python, such as request("metadata", 5, None, False)."""
    name = "".join(part.capitalize() for part in module.split("_"))
    return getattr(sys.modules["kafka.protocol." + module], name + "Request")[version](*fields)


def tls_context(security: Dict[str, Any]) -> Any:
    """The client side of the listener's TLS, or None. Raises OSError or ValueError on bad files."""
    if security["protocol"] not in ("SSL", "SASL_SSL"):
        return None
    import encodings.idna  # noqa: F401 - the handshake asks for it, when the user may not read it any more
    import ssl

    context = ssl.create_default_context(cafile=security.get("cafile"), cadata=security.get("cadata"))
    # Python 3.13 refuses certificates that the job's Java client takes.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.check_hostname = bool(security.get("verify_name", True) and security.get("verify", True))
    if not security.get("verify", True):
        context.verify_mode = ssl.CERT_NONE
    if security.get("certfile"):
        context.load_cert_chain(security["certfile"], security.get("keyfile"), security.get("keypassword"))
    return context


def sasl_mechanism(security: Dict[str, Any], host: str) -> Any:
    """A fresh login by kafka-python. Raises ImportError for GSSAPI on a node that lacks it."""
    name = security["mechanism"]
    module, class_name = SASL_CLASSES[name]
    loaded: Any = sys.modules["kafka.sasl." + module]
    if name == "GSSAPI" and loaded.gssapi is None:
        raise ImportError("GSSAPI needs the Python module gssapi on this node")
    return getattr(loaded, class_name)(
        host=host,
        security_protocol=security["protocol"],
        sasl_mechanism=name,
        sasl_plain_username=security.get("username"),
        sasl_plain_password=security.get("password"),
        sasl_kerberos_service_name=security.get("service_name") or "kafka",
    )

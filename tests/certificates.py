"""A certificate of localhost, made for these tests."""

from __future__ import annotations

import ssl
from pathlib import Path

CERTIFICATE = (
    "MIIBcDCCARegAwIBAgIBATAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwIBcNMjAwMTAxMDAwMDAw"
    "WhgPMjEyMDAxMDEwMDAwMDBaMBQxEjAQBgNVBAMMCWxvY2FsaG9zdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IA"
    "BDMqPo3iZvinETJydTohcRulY3RZI++akAdCm6lsjmL49g/Z//ky0SxYKFpW3cp6wYNIbfLtVfDra2GEiO1d1pij"
    "WDBWMBQGA1UdEQQNMAuCCWxvY2FsaG9zdDAPBgNVHRMBAf8EBTADAQH/MA4GA1UdDwEB/wQEAwIChDAdBgNVHQ4E"
    "FgQUxw/anggl9JJRAF8ajgFOD6fCxtIwCgYIKoZIzj0EAwIDRwAwRAIgL7aMX9LEALYkYFDLHZStW3h/0cB2nv+h"
    "tzutD25bixACIBIS/y0k9WbONB4wXhX079RlGRg76l+1+0mK86xQ7/Sg"
)
"""Of ``localhost``, from 2020 to 2120, by nobody; its key is good for nothing but these tests."""
KEY = (
    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgCByUEGvH0DLBIW6/ITYo7YYE5lSdwmpyqnrD7sFJ"
    "olihRANCAAQzKj6N4mb4pxEycnU6IXEbpWN0WSPvmpAHQpupbI5i+PYP2f/5MtEsWChaVt3KesGDSG3y7VXw62th"
    "hIjtXdaY"
)


def write_certificate(folder: Path) -> Path:
    """Write the certificate and its key into one file."""
    file = folder / "localhost.pem"
    file.write_text(
        "".join(
            f"-----BEGIN {label}-----\n{text}\n-----END {label}-----\n"
            for label, text in {"CERTIFICATE": CERTIFICATE, "PRIVATE KEY": KEY}.items()
        )
    )
    return file


def tls_of(certificate: Path) -> ssl.SSLContext:
    """Return the context of a server with that certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context

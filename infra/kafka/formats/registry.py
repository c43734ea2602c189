"""Schemas of payloads: read by their ids, and registered for the values that are written.

A schema is requested once, and is then in the home folder, because ids never change:

| the registry | a payload with the id |
|---|---|
| has the schema | is decoded with it, even if the registry is down later |
| has no such id | is a dead letter |
| has one that refers to others | is decoded with all of them, each requested once by subject and version |
| does not answer, or requires a password | fails the run, because the payload cannot be decoded |
| is not set | fails the run, with the variable to set |

    POST /subjects/trips-value/versions {"schema": …}      {"id": 7}, the same for the same schema ever after
    the registry refuses it as incompatible (409)          `SchemaRefusedError`: the node's columns have changed

Held by ``tests/infra/sources/kafka/formats/test_registry.py`` and ``tests/infra/sinks/test_registry_values.py``.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import Request, urlopen
from uuid import uuid4

from rivermeet.infra.kafka.refusals import RegistryUnavailableError, SchemaRefusedError
from rivermeet.infra.settings import SettingsError
from rivermeet.pipelines import limits

_NO_SUCH_SCHEMA = (40400, 40401, 40402, 40403)
"""Error codes for a missing schema, subject or version; a 404 of a wrong URL has none of them."""


@dataclass(frozen=True)
class Registry:
    """A schema registry with Confluent's interface.

    The URL has user and password, if they are required. Schemas are cached in a folder.
    """

    url: str = field(repr=False)
    cache: Path
    _known: dict[tuple[str, str], dict[str, Any] | None] = field(default_factory=dict, repr=False)

    def schema(self, id: int, form: str = "") -> dict[str, Any] | None:
        """The schema with this id, as the registry describes it; None if there is none.

        With form ``serialized`` it has the Protobuf descriptor in base64, in place of its text.
        """
        return self._once(f"schemas/ids/{id}", str(id), form)

    def read_references(self, described: Mapping[str, Any], form: str = "") -> dict[str, dict[str, Any] | None]:
        """All schemas that one refers to, by their names in references; each comes after those that it refers to.

        ``described`` is a schema as returned by `schema`. A missing referenced schema is None.
        """
        found: dict[str, dict[str, Any] | None] = {}
        for reference in described.get("references") or ():
            subject, version = quote(reference["subject"], safe=""), reference["version"]
            file = f"{sha256(subject.encode()).hexdigest()[:24]}-v{version}"
            one = self._once(f"subjects/{subject}/versions/{version}", file, form)
            found |= {} if one is None else self.read_references(one, form)
            found[reference["name"]] = one
        return found

    def register(self, subject: str, schema: str, kind: str) -> int:
        """Register a schema of ``AVRO`` or ``PROTOBUF`` if necessary, and return its id.

        The subject is ``TOPIC-value``, as Confluent's serializers name it.
        """
        if not self.url:
            raise SettingsError(
                f"a value of {kind.title()} is written, and no registry is: set RIVERMEET_SCHEMA_REGISTRY to its URL",
                variable="RIVERMEET_SCHEMA_REGISTRY",
            )
        body = {"schema": schema} | ({"schemaType": kind} if kind != "AVRO" else {})
        try:
            path = f"subjects/{quote(subject, safe='')}/versions"
            return int(self._answer(path, json.dumps(body).encode())["id"])
        except _FAILURES as error:
            if isinstance(error, HTTPError) and error.code in (409, 422):
                raise SchemaRefusedError(
                    f"the registry that RIVERMEET_SCHEMA_REGISTRY names refuses the schema of subject '{subject}' "
                    f"(status {error.code}): it is not compatible with those before it; write another topic, or "
                    "change the subject's rule of compatibility",
                    subject=subject,
                ) from None
            raise RegistryUnavailableError(
                "the registry that RIVERMEET_SCHEMA_REGISTRY names does not take the schema of subject "
                f"'{subject}' ({_reason(error)}); nothing was written: see to the registry, and run again",
                subject=subject,
            ) from None

    def _once(self, path: str, file: str, form: str) -> dict[str, Any] | None:
        if (path, form) not in self._known:
            self._known[path, form] = self._read_cached(path, file, form)
        return self._known[path, form]

    def _read_cached(self, path: str, file_name: str, form: str) -> dict[str, Any] | None:
        if not self.url:
            raise SettingsError(
                "payloads name schemas, and no registry is: set RIVERMEET_SCHEMA_REGISTRY to its URL",
                variable="RIVERMEET_SCHEMA_REGISTRY",
            )
        # Ids are unique within one registry. The path must not reveal its address.
        whose = sha256(_bare(self.url)[0].encode()).hexdigest()[:12]
        file = self.cache / whose / f"{file_name}{form and '-'}{form}.json"
        if file.exists():
            return json.loads(file.read_bytes())
        found = self._request(path, form)
        if found is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            # Sources that run in parallel may request the same schema at the same time.
            half = file.with_name(f".{file.name}.{uuid4().hex}")
            half.write_text(json.dumps(found))
            half.replace(file)
        return found

    def _request(self, path: str, form: str) -> dict[str, Any] | None:
        try:
            return self._answer(f"{path}{f'?format={form}' if form else ''}")
        except _FAILURES as error:
            if isinstance(error, HTTPError) and error.code == 404 and _code(error) in _NO_SUCH_SCHEMA:
                return None
            raise RegistryUnavailableError(
                f"the registry that RIVERMEET_SCHEMA_REGISTRY names does not give {path} ({_reason(error)}); what was "
                "planned stands: see to the registry, and run again",
                path=path,
            ) from None

    def _answer(self, path: str, body: bytes | None = None) -> Any:
        """The JSON that the registry answers; a POST if there is a body."""
        url, user = _bare(self.url)
        kind = {} if body is None else {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        request = Request(f"{url}/{path}", body, kind)
        if user:
            request.add_header("Authorization", f"Basic {base64.b64encode(user.encode()).decode()}")
        with urlopen(request, timeout=limits.REGISTRY_SECONDS) as answer:
            return json.load(answer)


NONE = Registry("", Path())
"""No registry: every request is refused, with the variable to set."""


_FAILURES = (OSError, HTTPException, ValueError, KeyError)


def _reason(error: Exception) -> str:
    """Why there is no answer, without the registry's address."""
    if isinstance(error, HTTPError):
        return f"status {error.code}"
    return type(error.reason if isinstance(error, URLError) else error).__name__


def _code(error: HTTPError) -> int | None:
    try:
        return json.load(error).get("error_code")
    except (ValueError, AttributeError, OSError):
        return None


def _bare(url: str) -> tuple[str, str]:
    """The URL without its user, and ``user:password``."""
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=host)), unquote(user)

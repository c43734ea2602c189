"""Schemas by their ids: from the schema registry once, and then from the home folder, because ids never change.

| the registry | a payload with the id |
|---|---|
| has the schema | is decoded with it, even if the registry is down later |
| has no such id | is a dead letter |
| has one that refers to others | is decoded with all of them, each requested once by subject and version |
| does not answer, or requires a password | fails the run, because the payload cannot be decoded |
| is not set | fails the run, with the variable to set |

Held by ``tests/infra/sources/kafka/formats/test_registry.py``.
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

from rivermeet.infra.kafka.refusals import RegistryUnavailableError
from rivermeet.infra.settings import SettingsError
from rivermeet.pipelines import limits

_NO_SUCH_SCHEMA = (40400, 40401, 40402, 40403)
"""Error codes for a missing schema, subject or version; a 404 of a wrong URL has none of them."""


@dataclass(frozen=True)
class Registry:
    """A schema registry with Confluent's interface.

    Attributes
    ----------
    url
        With user and password, if they are required.
    cache
        Folder in which schemas are cached.
    """

    url: str = field(repr=False)
    cache: Path
    _known: dict[tuple[str, str], dict[str, Any] | None] = field(default_factory=dict, repr=False)

    def schema(self, id: int, form: str = "") -> dict[str, Any] | None:
        """The schema with this id, as the registry describes it; None if there is none.

        Parameters
        ----------
        form
            ``serialized`` for the Protobuf descriptor in base64, in place of its text.

        Raises
        ------
        RegistryUnavailableError
            If the registry does not answer.
        """
        return self._once(f"schemas/ids/{id}", str(id), form)

    def referred(self, described: Mapping[str, Any], form: str = "") -> dict[str, dict[str, Any] | None]:
        """All schemas that one refers to, by their names in references; each comes after those that it refers to.

        Parameters
        ----------
        described
            A schema as returned by `schema`. A missing referenced schema is None.

        Raises
        ------
        RegistryUnavailableError
            If the registry does not answer.
        """
        found: dict[str, dict[str, Any] | None] = {}
        for reference in described.get("references") or ():
            subject, version = quote(reference["subject"], safe=""), reference["version"]
            file = f"{sha256(subject.encode()).hexdigest()[:24]}-v{version}"
            one = self._once(f"subjects/{subject}/versions/{version}", file, form)
            found |= {} if one is None else self.referred(one, form)
            found[reference["name"]] = one
        return found

    def _once(self, path: str, file: str, form: str) -> dict[str, Any] | None:
        if (path, form) not in self._known:
            self._known[path, form] = self._kept(path, file, form)
        return self._known[path, form]

    def request(self, path: str, body: bytes | None = None) -> Request:
        """A request to the registry, with user and password; a POST if it has a body."""
        url, user = _bare(self.url)
        kind = {} if body is None else {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        request = Request(f"{url}/{path}", body, kind)
        if user:
            request.add_header("Authorization", f"Basic {base64.b64encode(user.encode()).decode()}")
        return request

    def _kept(self, path: str, file_name: str, form: str) -> dict[str, Any] | None:
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
        found = self._asked(path, form)
        if found is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            # Sources that run in parallel may request the same schema at the same time.
            half = file.with_name(f".{file.name}.{uuid4().hex}")
            half.write_text(json.dumps(found))
            half.replace(file)
        return found

    def _asked(self, path: str, form: str) -> dict[str, Any] | None:
        request = self.request(f"{path}{f'?format={form}' if form else ''}")
        try:
            with urlopen(request, timeout=limits.REGISTRY_SECONDS) as answer:
                return json.load(answer)
        except HTTPError as error:
            if error.code == 404 and _code(error) in _NO_SUCH_SCHEMA:
                return None
            why = f"status {error.code}"
        except URLError as error:
            why = type(error.reason).__name__
        except (OSError, HTTPException, ValueError) as error:
            why = type(error).__name__
        raise RegistryUnavailableError(
            f"the registry that RIVERMEET_SCHEMA_REGISTRY names does not give {path} ({why}); what was planned "
            "stands: see to the registry, and run again"
        )


NONE = Registry("", Path())
"""No registry: every request is refused, with the variable to set."""


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

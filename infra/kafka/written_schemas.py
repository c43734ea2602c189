"""Schemas of written values: registered under a topic's subject, which gives their ids.

    POST /subjects/trips-value/versions {"schema": …}      {"id": 7}, the same for the same schema ever after
    the registry refuses it as incompatible (409)          `SchemaRefusedError`: the node's columns have changed
    the registry does not answer                           `RegistryUnavailableError`

Held by ``tests/infra/sinks/test_registry_values.py``.
"""

from __future__ import annotations

import json
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import urlopen

from rivermeet.infra.kafka.formats.registry import Registry
from rivermeet.infra.kafka.refusals import RegistryUnavailableError, TopicRefusedError
from rivermeet.infra.settings import SettingsError
from rivermeet.pipelines import limits


class SchemaRefusedError(TopicRefusedError):
    """The registry refuses the schema of the values to be written."""

    remedy = "Write another topic, or change the rule of compatibility of the subject."


def register_schema(registry: Registry, subject: str, schema: str, kind: str) -> int:
    """Register a schema if necessary, and return its id.

    Parameters
    ----------
    subject
        ``TOPIC-value``, as Confluent's serializers name it.
    kind
        ``AVRO`` or ``PROTOBUF``.
    """
    if not registry.url:
        raise SettingsError(
            f"a value of {kind.title()} is written, and no registry is: set RIVERMEET_SCHEMA_REGISTRY to its URL"
        )
    body: dict[str, Any] = {"schema": schema} | ({"schemaType": kind} if kind != "AVRO" else {})
    request = registry.request(f"subjects/{quote(subject, safe='')}/versions", json.dumps(body).encode())
    try:
        with urlopen(request, timeout=limits.REGISTRY_SECONDS) as answer:
            return int(json.load(answer)["id"])
    except HTTPError as error:
        if error.code in (409, 422):
            raise SchemaRefusedError(
                f"the registry that RIVERMEET_SCHEMA_REGISTRY names refuses the schema of subject '{subject}' (status "
                f"{error.code}): it is not compatible with those before it; write another topic, or change the "
                "subject's rule of compatibility",
                subject=subject,
            ) from None
        why = f"status {error.code}"
    except URLError as error:
        why = type(error.reason).__name__
    except (OSError, HTTPException, ValueError, KeyError) as error:
        why = type(error).__name__
    raise RegistryUnavailableError(
        f"the registry that RIVERMEET_SCHEMA_REGISTRY names does not take the schema of subject '{subject}' ({why}); "
        "nothing was written: see to the registry, and run again",
        subject=subject,
    )

"""One row of the table of topic settings."""

from __future__ import annotations

from dataclasses import dataclass

from goqueue.config import DeliveryConfig, LogConfig
from goqueue.metadata.settings.rules import NODE, Rule


@dataclass(frozen=True, slots=True)
class TopicSetting:
    """A setting: `field` is its place in `TopicConfig`.

    `broker_field` and `delivery_field` are the node's own default, in its sections `log` and `delivery`.
    `no_effect` says why values other than the default change nothing. A row without a field never has an effect.
    """

    name: str
    field: str | None
    rule: Rule
    default: str
    doc: str
    broker_field: str | None = None
    no_effect: str | None = None
    delivery_field: str | None = None

    @property
    def node_name(self) -> str | None:
        """The node's setting that it comes from, if there is one."""
        if self.delivery_field is not None:
            return f"delivery.{self.delivery_field}"
        return None if self.broker_field is None else f"log.{self.broker_field}"

    def default_text(self, log: LogConfig) -> str:
        """What a topic that does not set it gets, as text that can be parsed."""
        return self.default if self.broker_field is None else str(getattr(log, self.broker_field))

    def text_in_force(self, log: LogConfig, delivery: DeliveryConfig) -> str:
        """The same for a reader: the number itself where the default is "as the node has it"."""
        if self.delivery_field is not None:
            return str(getattr(delivery, self.delivery_field))
        return self.default_text(log)

    def is_own(self, text: str | None) -> bool:
        """Whether a topic's text for it says something of its own."""
        return text is not None and not (self.delivery_field is not None and text == NODE)

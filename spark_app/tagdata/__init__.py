"""The relay job that a team leaves running: HQ's topics into the site's own Kafka, every record accounted for."""

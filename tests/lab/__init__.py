"""The lab: HQ behind a NAT, and a site with Spark on YARN, in systemd containers on one machine."""

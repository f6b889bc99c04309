# Every target works with or without an activated environment.
PYTHON ?= python3
VENV := .venv
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
LAB := $(PYTHON) tests/lab
# More for a playbook, say ARGS="--limit nm1 --check --diff", or for the lab, say ARGS="--name other".
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help
help: ## Print this list
	@awk -F ':.*## ' '/^[a-z0-9% -]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup ready
setup: ## Install what is missing here: packages, .venv, jars, the lab's node image, a browser for the tests
	@$(LAB) setup
	@$(LAB) setup browser

ready:
	@$(LAB) setup --quiet

.PHONY: lab-up lab-down lab-status
lab-up: ready ## Bring the lab up, or heal it; ends when every part answers
	@$(LAB) up $(ARGS)
	@PYTHONPATH=tests python -m e2e.seed $(ARGS)

lab-down: ## Take the lab down and leave nothing of it
	@$(LAB) down $(ARGS)

lab-status: ## List the lab's hosts and ask its parts
	@$(LAB) status $(ARGS)

.PHONY: apply plan verify remove status
apply: ready ## Put the NAT map on every node
	@ansible-playbook apply $(ARGS)

plan verify remove: ready
	@ansible-playbook kafka.natmap.$@ $(ARGS)
plan: ## Write the change plan of the fleet, as a page and as JSON; what is signed
verify: ## Talk to every broker of the map from every node, as the job's user
remove: ## Take everything off the nodes again

FORMAT ?= text
status: ready ## Show what every node holds, and what is not as it should be; FORMAT=json|prometheus gives that alone
ifeq ($(FORMAT),text)
	@ansible-playbook kafka.natmap.status $(ARGS)
else
	@rm -f records/status.json records/status.prom
	@ansible-playbook kafka.natmap.status -e format=$(FORMAT) $(ARGS) >&2; code=$$?; \
	    cat records/status.$(if $(filter json,$(FORMAT)),json,prom); exit $$code
endif

# The doctor of one machine, without inventory or map: BOOTSTRAP=host:port [AS=user], more by ARGS="--json --topic T".
BOOTSTRAP ?=
# make itself has a program of this name.
ifeq ($(origin AS),default)
AS :=
endif
DOCTOR := PYTHONPATH=ansible/roles/switch/files:ansible/roles/doctor/files python ansible/roles/doctor/files/kafka_doctor.py
.PHONY: doctor
doctor: tools ## Name what is wrong between the nodes and Kafka; with BOOTSTRAP=host:port [AS=user] from this machine
ifeq ($(BOOTSTRAP),)
	@ansible-playbook kafka.natmap.doctor $(ARGS)
else
	@$(DOCTOR) --bootstrap $(BOOTSTRAP) $(if $(AS),--as $(AS)) $(ARGS)
endif

# Asked from this machine, without an inventory, or, where nothing answers here, from the first node of the inventory; FROM=nm1
# asks from that host. More: ARGS="--cluster hq --protocol ...", with FROM those of Ansible.
FROM ?=
NO_WAY := 3
DISCOVER := PYTHONPATH=tests/.collections:ansible/roles/switch/files:ansible/roles/doctor/files:ansible/roles/discover/files \
    python ansible/roles/discover/files/discover_here.py
.PHONY: discover
discover: tools ## Draft a NAT map: BOOTSTRAP=host:port[,host:port] [FROM=nm1]; records/nat_map.draft.yml
ifeq ($(FROM),)
	@$(DISCOVER) --bootstrap "$(BOOTSTRAP)" $(if $(AS),--as $(AS)) $(ARGS); code=$$?; \
	    if [ $$code -ne $(NO_WAY) ] || [ -n "$(ARGS)" ]; then exit $$code; fi; \
	    echo "Nothing answers here, so the inventory's first node is asked." >&2; \
	    exec ansible-playbook kafka.natmap.discover -e bootstrap=$(BOOTSTRAP) $(if $(AS),-e as_user=$(AS))
else
	@ansible-playbook kafka.natmap.discover -e bootstrap=$(BOOTSTRAP) -e discover_from=$(FROM) $(if $(AS),-e as_user=$(AS)) $(ARGS)
endif

.PHONY: report
report: ready ## Write records/report.html: the ways to Kafka as a picture, a matrix and findings, on one page
	@ansible-playbook kafka.natmap.report $(ARGS)

# The relay of months: RELAY=FILE of its settings, a replay by RUN=NAME FROM=earliest|TIME; once it is there, RELAY=FILE or NAME.
APP ?= relay
RELAY ?=
RUN ?=
SETTINGS = $(if $(RELAY),-e spark_job_relay=$(abspath $(RELAY))) $(if $(RUN),-e spark_job_run=$(RUN)) $(if $(FROM),-e spark_job_from=$(FROM))
WHICH = $(if $(RELAY),-e spark_job_named=$(or $(realpath $(RELAY)),$(RELAY))) $(if $(RUN),-e spark_job_run=$(RUN))
RELAYS = ansible-playbook kafka.natmap.spark_job $(WHICH)
.PHONY: deploy-spark-job check-spark-job demo
deploy-spark-job: ready ## Submit a Spark job to YARN and follow it; APP=relay|tagdata [RELAY=FILE] [RUN=NAME FROM=TIME]
	@ansible-playbook kafka.natmap.deploy_spark_job -e spark_job_app=$(APP) $(SETTINGS) $(ARGS)

check-spark-job: ready ## Check a relay's settings against the live clusters; submits nothing; RELAY=FILE
	@ansible-playbook kafka.natmap.check_spark_job -e spark_job_app=tagdata $(SETTINGS) $(ARGS)

WATCH ?=
LIVE = $(if $(WATCH),-e spark_job_watch=true $(if $(MAKE_TERMOUT),-e spark_job_live=$(shell tput cols 2>&- || echo 80)))
.PHONY: spark-job-status spark-job-logs spark-job-stop spark-job-drain audit-spark-job
spark-job-status: ready ## Say how relays fare; [RELAY=NAME] WATCH=1 goes on; FORMAT=json|prometheus gives that alone
ifeq ($(FORMAT),text)
	@$(RELAYS) -e spark_job_app=tagdata $(LIVE) $(ARGS)
else
	@rm -f records/relay.json records/relay.prom
	@$(RELAYS) -e spark_job_app=tagdata $(ARGS) >&2; code=$$?; \
	    cat records/relay.$(if $(filter json,$(FORMAT)),json,prom); exit $$code
endif

spark-job-logs spark-job-stop spark-job-drain: ready
	@$(RELAYS) -e spark_job_app=tagdata -e spark_job_do=$(if $(findstring logs,$@),logs,stop) -e spark_job_end=$(subst spark-job-,,$@) $(ARGS)
spark-job-logs: ## Show the end of a relay's logs
spark-job-stop: ## Let a relay end at the next batch boundary
spark-job-drain: ## Let a relay copy what is there now, then end

audit-spark-job: ready ## Compare what a relay read with what the sink holds; [RELAY=NAME] FORMAT=json gives the figures alone
ifeq ($(FORMAT),text)
	@$(RELAYS) -e spark_job_app=tagdata -e spark_job_do=audit $(ARGS)
else
	@rm -f records/audit.json
	@$(RELAYS) -e spark_job_app=tagdata -e spark_job_do=audit $(ARGS) >&2; code=$$?; \
	    if [ -f records/audit.json ]; then cat records/audit.json; fi; exit $$code
endif

demo: lab-up ## The whole story: the job fails, the map is applied, it works, the map goes, it fails again
	@PYTHONPATH=tests python -m e2e.demo $(ARGS)

# What `make test` runs, in the order in which it fails soonest.
TEST_STAGES ?= lint unit property spark molecule e2e
PYTEST := python -m pytest -q
RESULTS := build/test
.PHONY: tools lint unit property spark test
tools:
	@$(LAB) setup --quiet packages venv

lint: tools ## Check form and types of everything
	@bash tests/lint.sh

unit: tools ## Tables of every rule, the node program's layers in a network namespace, the report in a browser
	@$(LAB) setup --quiet browser
	@$(PYTEST) tests/unit --junitxml=$(RESULTS)/unit.xml

property: tools ## Generated maps against the real nft, iptables and nginx
	@$(PYTEST) tests/property --junitxml=$(RESULTS)/property.xml

spark: tools ## The relay of months, its audit and its refusals, in one Spark between two real brokers
	@$(LAB) setup --quiet connector kafka
	@PYTHONPATH=tests $(PYTEST) tests/spark --junitxml=$(RESULTS)/spark.xml

.PHONY: molecule e2e
molecule: ready ## Every mechanism by real connections: all scenarios on one lab, which goes at the end
	@bash tests/molecule/run.sh $(RESULTS)/molecule.xml

e2e: lab-up ## The whole story of the demo with fewer records, and a few faults
	@$(PYTEST) tests/e2e tests/faults --junitxml=$(RESULTS)/e2e.xml

test: ## All tests, the quick ones first; ends with the count
	@rm -rf $(RESULTS)
	@for stage in $(TEST_STAGES); do echo "== $$stage"; $(MAKE) --no-print-directory $$stage || exit 1; done
	@$(PYTHON) tests/summary.py $(RESULTS)

.PHONY: bench-switch faults-switch
MEASURE = PYTHONPATH=tests:tests/.collections python -m
bench-switch: ready ## What a switch costs, side by side: build/bench/switch.json (about 15 minutes)
	@$(MEASURE) bench $(ARGS)

faults-switch: ready ## Every step of a switch by every fault: build/faults/switch.json (about 6 minutes)
	@$(MEASURE) faults $(ARGS)

.PHONY: faults-watch
faults-watch: ready ## Foreign changes on a node, and how soon its watch has answered them (3 min; ARGS="--lab NAME")
	@PYTHONPATH=tests:tests/.collections python -m faults.watch $(ARGS)

.PHONY: bench-doctor faults-doctor
bench-doctor: ready ## What the doctor of 20 nodes costs, side by side: build/bench/doctor.json (about 5 minutes)
	@$(MEASURE) bench.doctor $(ARGS)

faults-doctor: ready ## What the doctor says of faults and of healthy nodes, and how soon (8 min; ARGS="--lab NAME")
	@PYTHONPATH=tests:tests/.collections python -m faults.doctor $(ARGS)

.PHONY: bench-relay soak-relay
bench-relay: ready ## What the relay costs beside MirrorMaker 2, and through the NAT: build/bench/relay.json (ARGS="--lab NAME")
	@$(MEASURE) bench.relay $(ARGS)

MINUTES ?= 60
RATE ?= 0
soak-relay: ready ## The relay under an hour of steady load: build/bench/soak.json; MINUTES=60 RATE=records/s
	@$(MEASURE) bench.soak --minutes $(MINUTES) --rate $(RATE) $(ARGS)

.PHONY: faults-relay
faults-relay: ready ## What befalls a relay of months, an audit after each: build/faults/relay.json (about 30 minutes; ARGS="--lab NAME")
	@PYTHONPATH=tests:tests/.collections python -m faults.relay $(ARGS)

OUT ?= build
.PHONY: collection
collection: tools ## Build the collection's tarball into build/, the templates in it
	@rm -rf $(OUT)/collection && mkdir -p $(OUT)/collection
	@tar -C ansible --dereference --exclude=__pycache__ -c . | tar -C $(OUT)/collection -x
	@ansible-galaxy collection build --force --output-path $(OUT) $(OUT)/collection

.PHONY: requirements
requirements: ## Pin the newest versions that requirements*.in allow (needs uv)
	@for f in requirements requirements-core216; do \
	    uv pip compile -q --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	        --no-emit-index-url $$f.in -o $$f.txt || exit 1; \
	done

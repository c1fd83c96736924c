BEGIN TRANSACTION;
CREATE TABLE dispatches (
	dispatch VARCHAR NOT NULL, 
	run VARCHAR NOT NULL, 
	session VARCHAR NOT NULL, 
	benchmark VARCHAR NOT NULL, 
	rollout VARCHAR NOT NULL, 
	state VARCHAR NOT NULL, 
	attempt INTEGER NOT NULL, 
	started_at FLOAT NOT NULL, 
	ended_at FLOAT, 
	masked BOOLEAN NOT NULL, 
	unscored BOOLEAN NOT NULL, 
	empty_output BOOLEAN NOT NULL, 
	not_inspected BOOLEAN NOT NULL, 
	model_calls INTEGER NOT NULL, 
	begun JSON NOT NULL, 
	ended JSON, 
	root_cause JSON, 
	failure_class VARCHAR, 
	terminal BOOLEAN NOT NULL, 
	tools_alone BOOLEAN NOT NULL, 
	pardoned JSON, 
	response JSON, 
	placed VARCHAR, 
	healed_by VARCHAR, 
	"row" JSON, 
	PRIMARY KEY (dispatch)
);
INSERT INTO "dispatches" VALUES('d-0','r-1','s-1','math_agent','0-0','succeeded',0,1700000000.0,1700000101.0,0,0,0,0,2,'{"dispatch": "d-0", "session": "s-1", "run": "r-1", "benchmark": "math_agent", "rollout": "0-0", "server": "math_agent", "started_at": 1700000000.0, "agent": "math_agent", "environment_server": null, "task_index": 0, "rollout_index": 0, "stage_index": null, "attempt": 0, "identity": {"_ng_task_index": 0, "_ng_rollout_index": 0, "agent_ref": {"name": "math_agent"}}, "event": "dispatch_begun"}','{"dispatch": "d-0", "ending": "result", "answer_began_at": 1700000100.0, "ended_at": 1700000101.0, "status": 200, "answer": null, "masked": false, "unscored": false, "empty_output": false, "not_inspected": false, "model_calls": 2, "event": "dispatch_ended"}','null',NULL,0,0,'null',NULL,'results',NULL,'null');
INSERT INTO "dispatches" VALUES('d-1','r-1','s-1','math_agent','1-0','failed',0,1700000000.0,1700000101.0,0,0,0,0,0,'{"dispatch": "d-1", "session": "s-1", "run": "r-1", "benchmark": "math_agent", "rollout": "1-0", "server": "math_agent", "started_at": 1700000000.0, "agent": "math_agent", "environment_server": null, "task_index": 1, "rollout_index": 0, "stage_index": null, "attempt": 0, "identity": {"_ng_task_index": 1, "_ng_rollout_index": 0, "agent_ref": {"name": "math_agent"}}, "event": "dispatch_begun"}','{"dispatch": "d-1", "ending": "result", "answer_began_at": 1700000100.0, "ended_at": 1700000101.0, "status": 200, "answer": {"reward": 0.0}, "masked": false, "unscored": false, "empty_output": false, "not_inspected": false, "model_calls": 0, "event": "dispatch_ended"}','{"server": "policy_model", "role": "model", "method": "POST", "path": "/v1/responses", "what": "http_status", "status": 500, "excerpt": "out of memory", "message": ""}','agent_run_error',0,0,'null',NULL,'failures',NULL,'{"_ng_task_index": 1, "_ng_rollout_index": 0, "agent_ref": {"name": "math_agent"}, "_ng_failure_class": "agent_run_error", "_ng_failure_type": "inner_call_failed", "_ng_failure_message": "model call POST policy_model /v1/responses: http_status 500", "_ng_failure_http_status": 500, "_ng_failure_response_body": "out of memory", "_rollcall": {"version": 1, "run": "r-1", "session": "s-1", "dispatch": "d-1", "class": "agent_run_error", "kind": "agent_run_error", "root_cause": {"server": "policy_model", "role": "model", "method": "POST", "path": "/v1/responses", "what": "http_status", "status": 500, "excerpt": "out of memory"}, "tags": [{"exchange": "x-1", "call": "c-x-1", "server": "policy_model", "kind": "model", "role": "model", "method": "POST", "path": "/v1/responses", "what": "http_status", "started_at": 1700000010.0, "ended_at": 1700000020.0, "depth": 2, "owner_by": "header", "status": 500, "excerpt": "out of memory", "rules": []}, {"exchange": "x-1b", "call": "c-x-1", "server": "policy_model", "kind": "model", "role": "model", "method": "POST", "path": "/v1/responses", "what": "http_status", "started_at": 1700000010.0, "ended_at": 1700000040.0, "depth": 2, "owner_by": "header", "status": 500, "excerpt": "out of memory", "rules": []}], "policy": {"unknown_route": "on", "context_limit": "on", "optional_stream": "on", "clean_up": "on", "tool_errors": "failure", "model_errors": "failure", "no_model_call": "warn", "empty_output": "warn", "unattributed": "withhold", "max_failure_rate": 0.0, "rules": []}, "withheld_result": {"reward": 0.0}}}');
INSERT INTO "dispatches" VALUES('d-2','r-1','s-1','math_agent','2-0','failed',0,1700000000.0,1700000101.0,0,0,0,0,0,'{"dispatch": "d-2", "session": "s-1", "run": "r-1", "benchmark": "math_agent", "rollout": "2-0", "server": "math_agent", "started_at": 1700000000.0, "agent": "math_agent", "environment_server": null, "task_index": 2, "rollout_index": 0, "stage_index": null, "attempt": 0, "identity": {"_ng_task_index": 2, "_ng_rollout_index": 0, "agent_ref": {"name": "math_agent"}}, "event": "dispatch_begun"}','{"dispatch": "d-2", "ending": "bad", "answer_began_at": 1700000100.0, "ended_at": 1700000101.0, "status": 500, "answer": null, "masked": false, "unscored": false, "empty_output": false, "not_inspected": false, "model_calls": 0, "event": "dispatch_ended"}','{"server": "math_agent", "role": "run", "method": "POST", "path": "/run", "what": "http_status", "status": 500, "excerpt": "out of memory", "message": ""}','agent_run_error',0,0,'null',NULL,'failures',NULL,'{"_ng_task_index": 2, "_ng_rollout_index": 0, "agent_ref": {"name": "math_agent"}, "_ng_failure_class": "agent_run_error", "_ng_failure_type": "http_status", "_ng_failure_message": "run call POST math_agent /run: http_status 500", "_ng_failure_http_status": 500, "_ng_failure_response_body": "out of memory", "_rollcall": {"version": 1, "run": "r-1", "session": "s-1", "dispatch": "d-2", "class": "agent_run_error", "kind": "agent_run_error", "root_cause": {"server": "math_agent", "role": "run", "method": "POST", "path": "/run", "what": "http_status", "status": 500, "excerpt": "out of memory"}, "tags": [{"exchange": "run-d-2", "call": "c-run-d-2", "server": "math_agent", "kind": "agent", "role": "run", "method": "POST", "path": "/run", "what": "http_status", "started_at": 1700000000.0, "ended_at": 1700000101.0, "depth": 0, "owner_by": "header", "status": 500, "excerpt": "out of memory", "rules": []}], "policy": {"unknown_route": "on", "context_limit": "on", "optional_stream": "on", "clean_up": "on", "tool_errors": "failure", "model_errors": "failure", "no_model_call": "warn", "empty_output": "warn", "unattributed": "withhold", "max_failure_rate": 0.0, "rules": []}}}');
INSERT INTO "dispatches" VALUES('d-2b','r-1','s-2','math_agent','2-0','succeeded',1,1700000000.0,1700000101.0,1,0,0,0,1,'{"dispatch": "d-2b", "session": "s-2", "run": "r-1", "benchmark": "math_agent", "rollout": "2-0", "server": "math_agent", "started_at": 1700000000.0, "agent": "math_agent", "environment_server": null, "task_index": 2, "rollout_index": 0, "stage_index": null, "attempt": 1, "identity": {"_ng_task_index": 2, "_ng_rollout_index": 0, "agent_ref": {"name": "math_agent"}}, "event": "dispatch_begun"}','{"dispatch": "d-2b", "ending": "result", "answer_began_at": 1700000100.0, "ended_at": 1700000101.0, "status": 200, "answer": null, "masked": true, "unscored": false, "empty_output": false, "not_inspected": false, "model_calls": 1, "event": "dispatch_ended"}','null',NULL,0,0,'null',NULL,'results',NULL,'null');
INSERT INTO "dispatches" VALUES('d-3','r-1','s-2','math_agent','3-0','running',0,1700000000.0,NULL,0,0,0,0,0,'{"dispatch": "d-3", "session": "s-2", "run": "r-1", "benchmark": "math_agent", "rollout": "3-0", "server": "math_agent", "started_at": 1700000000.0, "agent": "math_agent", "environment_server": null, "task_index": 3, "rollout_index": 0, "stage_index": null, "attempt": 0, "identity": {"_ng_task_index": 3, "_ng_rollout_index": 0, "agent_ref": {"name": "math_agent"}}, "event": "dispatch_begun"}',NULL,NULL,NULL,0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "dispatches" VALUES('d-4','r-1','s-2','math_agent','4-0','abandoned',0,1700000000.0,1700000050.0,0,0,0,0,0,'{"dispatch": "d-4", "session": "s-2", "run": "r-1", "benchmark": "math_agent", "rollout": "4-0", "server": "math_agent", "started_at": 1700000000.0, "agent": "math_agent", "environment_server": null, "task_index": 4, "rollout_index": 0, "stage_index": null, "attempt": 0, "identity": {"_ng_task_index": 4, "_ng_rollout_index": 0, "agent_ref": {"name": "math_agent"}}, "event": "dispatch_begun"}',NULL,NULL,NULL,0,0,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE rollouts (
	run VARCHAR NOT NULL, 
	benchmark VARCHAR NOT NULL, 
	rollout VARCHAR NOT NULL, 
	task_index INTEGER, 
	rollout_index INTEGER, 
	stage_index INTEGER, 
	agent VARCHAR, 
	environment_server VARCHAR, 
	server VARCHAR, 
	state VARCHAR NOT NULL, 
	dispatch VARCHAR, 
	attempt INTEGER NOT NULL, 
	PRIMARY KEY (run, benchmark, rollout)
);
INSERT INTO "rollouts" VALUES('r-1','math_agent','0-0',0,0,NULL,'math_agent',NULL,'math_agent','succeeded','d-0',0);
INSERT INTO "rollouts" VALUES('r-1','math_agent','1-0',1,0,NULL,'math_agent',NULL,'math_agent','failed','d-1',0);
INSERT INTO "rollouts" VALUES('r-1','math_agent','2-0',2,0,NULL,'math_agent',NULL,'math_agent','succeeded','d-2b',1);
INSERT INTO "rollouts" VALUES('r-1','math_agent','3-0',3,0,NULL,'math_agent',NULL,'math_agent','running','d-3',0);
INSERT INTO "rollouts" VALUES('r-1','math_agent','4-0',4,0,NULL,'math_agent',NULL,'math_agent','missing','d-4',0);
INSERT INTO "rollouts" VALUES('r-1','math_agent','5-0',5,0,NULL,'math_agent',NULL,NULL,'missing',NULL,0);
CREATE TABLE runs (
	run VARCHAR NOT NULL, 
	output TEXT, 
	created_at FLOAT NOT NULL, 
	expected_source TEXT, 
	expected_digest TEXT, 
	asked_at FLOAT, 
	accepted_at FLOAT, 
	accepted_reason TEXT, 
	policy JSON, 
	PRIMARY KEY (run)
);
INSERT INTO "runs" VALUES('r-1',NULL,1700000000.0,'inputs.jsonl','sha256:0',1700000000.0,NULL,NULL,NULL);
CREATE TABLE schema_version (
	version INTEGER NOT NULL, 
	PRIMARY KEY (version)
);
INSERT INTO "schema_version" VALUES(2);
CREATE TABLE senders (
	sender VARCHAR NOT NULL, 
	last INTEGER NOT NULL, 
	PRIMARY KEY (sender)
);
INSERT INTO "senders" VALUES('p-1',20);
CREATE TABLE sessions (
	session VARCHAR NOT NULL, 
	run VARCHAR NOT NULL, 
	mode VARCHAR NOT NULL, 
	launch VARCHAR, 
	gym VARCHAR, 
	host VARCHAR, 
	pid INTEGER, 
	attached BOOLEAN NOT NULL, 
	started_at FLOAT NOT NULL, 
	heartbeat_at FLOAT NOT NULL, 
	ended_at FLOAT, 
	counted_as_zero JSON, 
	reverifies VARCHAR, 
	PRIMARY KEY (session)
);
INSERT INTO "sessions" VALUES('s-1','r-1','fresh','l-1','0.7.0',NULL,NULL,1,1700000000.0,1700000000.0,NULL,'null',NULL);
INSERT INTO "sessions" VALUES('s-2','r-1','resume',NULL,NULL,NULL,NULL,1,1700000200.0,1700000200.0,NULL,'null',NULL);
CREATE TABLE tags (
	exchange VARCHAR NOT NULL, 
	dispatch VARCHAR, 
	claimed VARCHAR, 
	carrier VARCHAR NOT NULL, 
	server VARCHAR NOT NULL, 
	call VARCHAR NOT NULL, 
	recovered_at FLOAT, 
	outlived_at FLOAT, 
	ended_at FLOAT NOT NULL, 
	tag JSON NOT NULL, 
	PRIMARY KEY (exchange)
);
INSERT INTO "tags" VALUES('x-1','d-1','d-1','','policy_model','c-x-1',NULL,NULL,1700000020.0,'{"exchange": "x-1", "call": "c-x-1", "server": "policy_model", "kind": "model", "role": "model", "method": "POST", "path": "/v1/responses", "what": "http_status", "started_at": 1700000010.0, "ended_at": 1700000020.0, "depth": 2, "owner_by": "header", "dispatch": "d-1", "status": 500, "message": "", "excerpt": "out of memory", "carrier": "", "conflict": "", "marker": "", "too_long": false, "stream": false, "shutdown": false, "rules": [], "by_rule": false, "event": "tag"}');
INSERT INTO "tags" VALUES('x-1b','d-1','d-1','','policy_model','c-x-1',NULL,NULL,1700000040.0,'{"exchange": "x-1b", "call": "c-x-1", "server": "policy_model", "kind": "model", "role": "model", "method": "POST", "path": "/v1/responses", "what": "http_status", "started_at": 1700000010.0, "ended_at": 1700000040.0, "depth": 2, "owner_by": "header", "dispatch": "d-1", "status": 500, "message": "", "excerpt": "out of memory", "carrier": "", "conflict": "", "marker": "", "too_long": false, "stream": false, "shutdown": false, "rules": [], "by_rule": false, "event": "tag"}');
INSERT INTO "tags" VALUES('run-d-2','d-2','d-2','','math_agent','c-run-d-2',NULL,NULL,1700000101.0,'{"exchange": "run-d-2", "call": "c-run-d-2", "server": "math_agent", "kind": "agent", "role": "run", "method": "POST", "path": "/run", "what": "http_status", "started_at": 1700000000.0, "ended_at": 1700000101.0, "depth": 0, "owner_by": "header", "dispatch": "d-2", "status": 500, "message": "", "excerpt": "out of memory", "carrier": "", "conflict": "", "marker": "", "too_long": false, "stream": false, "shutdown": false, "rules": [], "by_rule": false, "event": "tag"}');
INSERT INTO "tags" VALUES('x-2','d-2b','d-2b','','policy_model','c-x-2',1700000030.0,NULL,1700000020.0,'{"exchange": "x-2", "call": "c-x-2", "server": "policy_model", "kind": "model", "role": "model", "method": "POST", "path": "/v1/responses", "what": "http_status", "started_at": 1700000010.0, "ended_at": 1700000020.0, "depth": 2, "owner_by": "header", "dispatch": "d-2b", "status": 500, "message": "", "excerpt": "out of memory", "carrier": "", "conflict": "", "marker": "", "too_long": false, "stream": false, "shutdown": false, "rules": [], "by_rule": false, "event": "tag"}');
INSERT INTO "tags" VALUES('x-9',NULL,NULL,'','lost_model','c-x-9',NULL,NULL,1700000210.0,'{"exchange": "x-9", "call": "c-x-9", "server": "lost_model", "kind": "model", "role": "model", "method": "POST", "path": "/v1/responses", "what": "http_status", "started_at": 1700000010.0, "ended_at": 1700000210.0, "depth": 2, "owner_by": "header", "dispatch": null, "status": 500, "message": "", "excerpt": "out of memory", "carrier": "", "conflict": "", "marker": "", "too_long": false, "stream": false, "shutdown": false, "rules": [], "by_rule": false, "event": "tag"}');
INSERT INTO "tags" VALUES('x-10',NULL,'d-later','','policy_model','c-x-10',NULL,NULL,1700000020.0,'{"exchange": "x-10", "call": "c-x-10", "server": "policy_model", "kind": "model", "role": "model", "method": "POST", "path": "/v1/responses", "what": "http_status", "started_at": 1700000010.0, "ended_at": 1700000020.0, "depth": 2, "owner_by": "header", "dispatch": "d-later", "status": 500, "message": "", "excerpt": "out of memory", "carrier": "", "conflict": "", "marker": "", "too_long": false, "stream": false, "shutdown": false, "rules": [], "by_rule": false, "event": "tag"}');
CREATE TABLE topology (
	server VARCHAR NOT NULL, 
	refers_to VARCHAR NOT NULL, 
	PRIMARY KEY (server, refers_to)
);
INSERT INTO "topology" VALUES('math_agent','policy_model');
CREATE TABLE watched (
	run VARCHAR NOT NULL, 
	server VARCHAR NOT NULL, 
	kind VARCHAR NOT NULL, 
	exchanges INTEGER NOT NULL, 
	owned INTEGER NOT NULL, 
	made INTEGER NOT NULL, 
	PRIMARY KEY (run, server)
);
INSERT INTO "watched" VALUES('r-1','policy_model','model',7,6,0);
CREATE INDEX sessions_run ON sessions (run, started_at);
CREATE INDEX sessions_launch ON sessions (launch);
CREATE INDEX rollouts_rollout ON rollouts (run, rollout);
CREATE INDEX rollouts_state ON rollouts (run, state);
CREATE INDEX dispatches_rollout ON dispatches (run, benchmark, rollout);
CREATE INDEX tags_dispatch ON tags (dispatch);
CREATE INDEX tags_claimed ON tags (claimed) WHERE dispatch IS NULL;
CREATE INDEX tags_unattributed ON tags (ended_at) WHERE dispatch IS NULL;
COMMIT;

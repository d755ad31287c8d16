"""The run folder: what a run keeps on disk. Without torch, so that a verifier does not need it.

| module | content |
|---|---|
| `run_folder` | names of the files, reading plan.json and JSON lines |
| `ledger`, `ledger_state` | what ran: a chain of hashed entries, and which entry may follow which |
| `session`, `changes` | starting, resuming and completing a run; differences that forbid resuming |
| `checkpoints`, `key`, `sensitive_file` | the state to resume from, the secret key, the owner's record |
| `privacy_cost` | the epsilon of the steps that ran |
| `certificate`, `certificate_files` | the certificate, a pure function of plan and ledger; writing it |
| `wording`, `result_wording`, `schema`, `certificate_text`, `model_card` | its sentences, its JSON schema, its pages |
| `inert_text` | words of somebody else on these pages |
| `durable`, `plain_files`, `strict_json` | safe writing and reading; these depend on `reldp.errors` only |

Nothing is imported here: `reldp.graph` and `reldp.plan` use the last three modules, and must not load
the others, which use `reldp.plan`.

>>> from reldp.runs.run_folder import RunFolder
>>> RunFolder("run").certificate.name
'certificate.json'
"""

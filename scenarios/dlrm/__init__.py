"""Scenarios that train a DLRM: their keys, the placement of their tables, and what results say of it.

`family` is the entry, behind the interface of `scenarios.family`. `section`: keys; `resolving`, `schedule`: names and
defaults; `settings`: what the generator takes; `kernels`, `rates`, `plans`, `refusal`, `remedies`,
`remedy_settings`: a plan that fits;
`placed`: a job under its plan; `levers`: settings worth a try; `plan_study`, `written`: plans for people and trainers.
"""

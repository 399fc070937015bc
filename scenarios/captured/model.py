"""A captured job as the model of a scenario: read from its folder, or packed in the scenario."""

from __future__ import annotations

from inputs.errors import InputError
from inputs.keys import KeyPath
from inputs.validate import validate
from inputs.yaml_lines import Document
from scenarios.shared_keys import MODEL, beside
from workloads.captured.job_file import packed, read_job, unpacked
from workloads.captured.records import RecordedJob
from workloads.family import Model


class CapturedModel(Model):
    """A captured job.

    Attributes:
        job: its packed text (`workloads.captured.job_file`).
    """

    job: str

    @property
    def records(self) -> RecordedJob:
        """Its records."""
        return unpacked(self.job)


def load_job(name_or_path: str, origin: Document) -> CapturedModel:
    """The job of a folder or file, relative to the scenario's folder.

    Raises:
        InputError: there is none, or it is wrong.
    """
    try:
        job = read_job(beside(origin, MODEL, name_or_path))
    except RuntimeError:  # no such user
        raise origin.error(MODEL, "no such user", given=name_or_path, expected="the folder of a job") from None
    except InputError as error:
        if error.message == "no such job":
            raise origin.error(MODEL, error.message, given=str(error.file), expected=error.expected) from None
        raise
    title = f"{job.source}, captured with PyTorch {job.torch}"
    return CapturedModel(name=job.name, title=title, job=packed(job))


def read_packed(document: Document, prefix: KeyPath) -> CapturedModel:
    """The job that stands in a scenario.

    Raises:
        InputError: it is wrong.
    """
    model = validate(CapturedModel, document, prefix=prefix)
    try:
        _ = model.records
    except InputError as error:
        raise document.error(
            (*prefix, "job"), f"{error.key or 'job'}: {error.message}", given=error.given, expected=error.expected
        ) from None
    return model

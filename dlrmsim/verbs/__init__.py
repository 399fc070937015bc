"""The verbs of dlrmsim, one file each: ``verb(what, *, out=None, progress=None, **options) -> VerbResult``.

`what` is a name that ships or the path of a file; verbs about scenarios take a resolved one, too. Options are keywords;
`progress` receives the stages of the work. A verb writes its files whole or not at all and returns a frozen dataclass.
The command line calls the same functions.
"""

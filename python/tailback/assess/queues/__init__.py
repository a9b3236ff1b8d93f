"""The dossier of a queue by RFC 7567 and RFC 7928: cells, rules and planted faults as data.

See docs/assess-queues.md. The runner, the judge and the pages are those of `tailback.assess`.
"""

"""The metering proxy: any program's model calls on the ledger, without the program's help.

A loopback HTTP server that speaks the dialects of OpenAI (chat completions, responses) and Anthropic (messages),
forwards to the run's gateway and writes one row an attempt. A program is given a *lease*: a throwaway token that
says who pays, and that dies with the item. The real key never leaves the proxy.

``dialects`` knows paths and error bodies, ``lease`` who pays and how much may be spent, ``forward`` one attempt,
``http1`` the wire, ``server`` puts them together.
"""

"""Listeners that say one byte and take whatever comes. Runs on a node until standard input ends.

Arguments: port=byte … ; prints `ready` when all listen.
"""

import asyncio
import contextlib
import sys


async def main() -> None:
    """Serve until standard input ends."""
    servers = []
    for argument in sys.argv[1:]:
        port, _, byte = argument.partition("=")

        async def answer(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter, said: bytes = byte.encode()
        ) -> None:
            with contextlib.suppress(OSError):
                writer.write(said)
                while await reader.read(1 << 20):
                    pass
            writer.close()

        servers.append(await asyncio.start_server(answer, "0.0.0.0", int(port), backlog=1024))
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())

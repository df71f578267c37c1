"""Sends requests with what Python has, each to a sleeping actor, and prints a
line of JSON for each: what sent it, the status, the actor's mark, the body."""
import http.client
import json
import sys
import urllib.error
import urllib.request

address = sys.argv[1]
payload = b"python" * 200_000


def tell(what, status, headers, body):
    print(json.dumps({"what": what, "status": status, "mark": headers.get("X-Actor", ""), "body": body.decode()}))


def via_client(what, to, method, path, **options):
    connection = http.client.HTTPConnection(address, timeout=30)
    for turn in ("", " again"):  # on the same connection
        connection.request(method, path, headers={"X-To": to}, **options)
        response = connection.getresponse()
        tell(what + turn, response.status, response.headers, response.read())
        if callable(options.get("body")) or options.get("encode_chunked"):
            break
    connection.close()


def via_urllib(what, to, path, data=None):
    request = urllib.request.Request(f"http://{address}{path}", data=data, headers={"X-To": to})
    try:
        response = urllib.request.urlopen(request, timeout=30)
    except urllib.error.HTTPError as error:
        response = error
    tell(what, response.status, response.headers, response.read())


via_client("client get", "h1-py-get", "GET", "/")
via_client("client post", "h1-py-post", "POST", "/upload", body=payload)
via_client("client chunked", "h2c-py-chunked", "POST", "/upload",
           body=(payload[i:i + 60_000] for i in range(0, len(payload), 60_000)), encode_chunked=True)
via_urllib("urllib get", "h2c-py-urllib", "/")
via_urllib("urllib post", "h1-py-urlpost", "/upload", payload)
via_urllib("urllib unknown", "nobody", "/")

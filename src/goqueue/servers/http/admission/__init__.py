"""What every HTTP request passes before its route, and requests that never reach one.

Logins, the checks of browsers and of silent connections, and answers to what is not HTTP or has no route. Nothing here
knows an operation. Begin with `entrance`.
"""

"""What administration tools ask for: settings of topics, brokers and groups, access rules, groups.

The handlers of the requests are in `handlers`. Begin with `config_resources`.
"""

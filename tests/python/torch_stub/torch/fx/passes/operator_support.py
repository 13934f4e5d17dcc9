class OperatorSupportBase:
    pass

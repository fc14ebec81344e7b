__all__ = ['ttypes', 'constants', 'Latency']

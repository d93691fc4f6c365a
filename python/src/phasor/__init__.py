from phasor import _phasor

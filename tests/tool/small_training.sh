# shellcheck shell=bash
# Sourced by tests that need a trained model: small_training PHASOR OUT makes one of 9 tokens in a moment.
small_training() {
  "$1" train --task copy --symbols 8 --length 16 --batch 4 --hidden 32 --heads 2 --steps 3 --evaluate-every 3 --out "$2"
}

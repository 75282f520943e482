"""Trains one network in several actors, each with a copy of it.

`training` has `DataParallel` (the actors, their tree, and recovery when one of them dies) and the
trainers: gradients and steps of models of PyTorch, of Keras, and of objects with both methods.
"""

"""Training one network by several actors, each of which has a copy of it.

`trainers`   gradients and steps of models of PyTorch, of Keras, and of objects with both methods
`training`   `DataParallel`: the actors, their tree, and what follows the end of one of them
"""

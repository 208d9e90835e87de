"""Adam and its learning rate [sec. 5.3], gradient clipping, and loss scaling for float16."""

from minitransformer.optim.adam import Adam
from minitransformer.optim.clipping import clip_gradient_norm
from minitransformer.optim.loss_scale import LossScale
from minitransformer.optim.schedule import learning_rate, scheduled_rate

__all__ = ["Adam", "LossScale", "clip_gradient_norm", "learning_rate", "scheduled_rate"]

"""Losses for JAX: functions of a batch whose gradient in x is the library's own, under jit, grad, vmap and shard_map.

>>> import jax, jax.numpy as jnp, numpy as np, circe
>>> from circe.jax import circe_loss
>>> random = np.random.default_rng(0)
>>> y = random.normal(size=600)
>>> z = y**2 + random.normal(size=600)
>>> mean = circe.ConditionalMean(sigma2_z=1.0).fit(y[:400], z[:400])
>>> loss = jax.jit(lambda x: circe_loss(x, y[400:], z[400:], mean, sigma2_x=1.0))
>>> gradient = jax.grad(loss)(jnp.array(z[400:, None]))
>>> bool(loss(jnp.array(z[400:, None])) > 0.001), gradient.shape
(True, (200, 1))
"""

from ._ffi import BuildWarning, backend
from ._losses import SmallBatchWarning, circe_loss, gcm_loss, hscic_loss, hsic_loss

__all__ = ["BuildWarning", "SmallBatchWarning", "backend", "circe_loss", "gcm_loss", "hscic_loss", "hsic_loss"]

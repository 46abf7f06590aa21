"""Variances of reward and value from an ensemble of models: estimates are means over members, stds their spread.

python examples/ensemble_variances.py
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

import emcts

PLACES, SEEN, MEMBERS, DISCOUNT = 16, 8, 16, 0.9  # a corridor whose first half was seen
PAYS = 6  # the place with the only reward that was seen
REWARDS = jnp.zeros(PLACES).at[PAYS].set(0.3)


def move(place, action):
    """To the left (0) or to the right (1)."""
    return jnp.clip(place + 2 * action - 1, 0, PLACES - 1)


def values():
    """Discounted returns of the way to the reward, and back and forth from there on."""
    distance = jnp.abs(jnp.arange(PLACES) - PAYS)
    return REWARDS[PAYS] * DISCOUNT ** jnp.where(distance, distance - 1, 1) / (1 - DISCOUNT**2)


class Model(eqx.Module):
    """One member: reward and value of a place, and networks of the same shape that never change."""

    network: eqx.nn.MLP
    prior: eqx.nn.MLP

    def __init__(self, key):
        keys = jax.random.split(key)
        self.network, self.prior = (eqx.nn.MLP(PLACES, 2, 32, 1, key=one) for one in keys)

    def __call__(self, place):
        x = jax.nn.one_hot(place, PLACES)
        # Without data members stay at their priors, which all differ.
        return self.network(x) + 3 * jax.lax.stop_gradient(self.prior(x))


@eqx.filter_jit
def train(key, steps=500):
    """Trains all members on the rewards and discounted returns of the places that were seen."""
    member_key, batch_key = jax.random.split(key)
    members = eqx.filter_vmap(Model)(jax.random.split(member_key, MEMBERS))
    arrays, functions = eqx.partition(members, eqx.is_array)
    optimiser = optax.adam(1e-2)
    targets = jnp.stack([REWARDS, values()], axis=-1)

    def loss(arrays, keys):
        def of_member(model, key):
            place = jax.random.randint(key, (16,), 0, SEEN)  # each member has its own batches
            return jnp.mean(jnp.square(jax.vmap(model)(place) - targets[place]))

        return jnp.sum(eqx.filter_vmap(of_member)(eqx.combine(arrays, functions), keys))

    def step(carry, key):
        arrays, state = carry
        gradient = jax.grad(loss)(arrays, jax.random.split(key, MEMBERS))
        updates, state = optimiser.update(gradient, state)
        return (optax.apply_updates(arrays, updates), state), None

    start = (arrays, optimiser.init(arrays))
    (arrays, _), _ = jax.lax.scan(step, start, jax.random.split(batch_key, steps))
    return eqx.combine(arrays, functions)


def predict(members, place):
    """The mean and the variance over members, [B] each, of the rewards and of the values of a batch of places."""
    each = eqx.filter_vmap(lambda model: jax.vmap(model)(place))(members)  # [members, B, 2]
    mean, variance = jnp.mean(each, axis=0), jnp.var(each, axis=0)
    return (mean[:, 0], variance[:, 0]), (mean[:, 1], variance[:, 1])


def recurrent_fn(members, key, action, place):
    place = move(place, action)
    (reward, reward_variance), (value, value_variance) = predict(members, place)
    step = emcts.RecurrentFnOutput(
        reward=reward,
        discount=jnp.full(action.shape, DISCOUNT),
        prior_logits=jnp.zeros((*action.shape, 2)),
        value=value,
        reward_variance=reward_variance,
        value_variance=value_variance,
    )
    return step, place


@eqx.filter_jit
def search(members, key, place, beta):
    _, (value, variance) = predict(members, place)
    root = emcts.RootFnOutput(jnp.zeros((*place.shape, 2)), value, place, variance)
    # Members share their data, and so their errors: the std of a return is at most the sum of the stds on its way.
    return emcts.gumbel_muzero_policy(
        members,
        key,
        root,
        recurrent_fn,
        num_simulations=32,
        gumbel_scale=0.0,
        beta=beta,
        propagation=emcts.correlated,
    )


def main() -> None:
    members = train(jax.random.key(0))
    (_, variance), _ = predict(members, jnp.arange(PLACES))
    seen, unseen = (float(jnp.sqrt(half.mean())) for half in (variance[:SEEN], variance[SEEN:]))
    print(f"std of the reward: {seen:.2f} where it was seen, {unseen:.2f} where not")
    edge = jnp.array([SEEN - 1, SEEN - 1])  # the last place that was seen
    betas = jnp.array([0.0, 3.0])
    out = search(members, jax.random.key(1), edge, betas)
    summary = out.search_tree.summary()
    for beta, action, q, std in zip(betas, out.action, summary.qvalues, summary.qvalues_std, strict=True):
        left, right = (f"{float(q[side]):.2f} ± {float(std[side]):.2f}" for side in (0, 1))
        print(f"beta {beta:g}: left {left}, right {right}, goes {('left', 'right')[int(action)]}")


if __name__ == "__main__":
    main()

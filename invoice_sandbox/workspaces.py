"""Make a workspace: its seed, its clock, its starting data and its first key."""

from __future__ import annotations

from invoice_sandbox.clock import ClockState, Wall, instant_text
from invoice_sandbox.credentials import EVERYTHING, issue_key
from invoice_sandbox.ids import key_digest, random_seed, resource_id, seed_token
from invoice_sandbox.project import Project
from invoice_sandbox.store import Store, Workspace


async def create_workspace(
    store: Store,
    project: Project,
    wall: Wall,
    *,
    key: str,
    seed: int | None = None,
    clock: ClockState | None = None,
    scenario: str = "manual",
) -> Workspace:
    """Add a workspace that holds the project's fixtures and is opened by ``key``.

    Without ``seed`` a random one is drawn, so that its ids never repeat those of another.
    """
    chosen = random_seed() if seed is None else seed
    token = seed_token(chosen)
    if await store.credential(key_digest(key)) is not None:
        raise ValueError("this key opens another workspace already")
    workspace = Workspace(
        id=await _free_id(store, f"wsp_sandbox_{token}"),
        seed=chosen,
        token=token,
        clock=clock or ClockState(),
        scenario=scenario,
    )
    await store.create_workspace(workspace)
    async with store.transaction(workspace.id) as state:
        for kind, records in project.fixtures.items():
            for record in records:
                await project.record(state, kind, record)
        await issue_key(
            state,
            workspace_id=workspace.id,
            key_id=resource_id("key_sandbox", token, await state.next_number("key_sandbox")),
            key=key,
            name="Workspace key",
            scopes=[EVERYTHING],
            created_at=instant_text(workspace.clock.now(wall)),
        )
    return workspace


async def _free_id(store: Store, wanted: str) -> str:
    """``wanted``, or with a number behind it: two workspaces may ask for the same seed."""
    number, free = 1, wanted
    while await store.workspace(free) is not None:
        number += 1
        free = f"{wanted}_{number}"
    return free

"""A whole model, assembled: the glue of a notebook's solutions with the student's functions in it."""

from types import ModuleType

from course.exercise import LESSONS, exercises_of, module_at
from course.mine import own_or_solution
from course.own_source import exercise_of

LATER = {"my_transformer": ("11_training.schedule", "14_translation.alignment")}
"""Functions of the model that the glue does not call."""


def assembled(notebook: str = "my_transformer", own_glue: bool = True) -> tuple[ModuleType, dict[str, str]]:
    """The model, and for each exercise why its function is not the student's ("": it is).

    notebook: ``my_transformer`` or ``my_llm``
    own_glue: whether the student's glue is in it too, or their functions of the lessons alone
    """
    parts = module_at(LESSONS / "solutions" / f"{notebook}.py")
    places = {}
    for name, value in vars(parts).items():
        exercise = exercise_of(value, getattr(value, "__module__", None) or "")
        if exercise and not exercise.startswith(notebook):
            places[exercise] = name
    if own_glue:
        places |= {exercise: exercise.partition(".")[2] for exercise in exercises_of(notebook)}
    faults = {}
    for exercise, name in places.items():
        function, faults[exercise] = own_or_solution(exercise)
        if not (faults[exercise] and exercise.startswith(notebook)):  # the glue here calls what is in ``parts``
            setattr(parts, name, function)
    return parts, faults | {exercise: own_or_solution(exercise)[1] for exercise in LATER.get(notebook, ())}

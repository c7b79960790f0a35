"""The images of a pod, under the names by which nodes report them."""

from scheduler.api.objects import PodSpec


def image_names(spec: PodSpec) -> tuple[str, ...]:
    """Return the images of the pod as nodes report them; an image used twice is listed twice."""
    return (
        *(normalized_image_name(container.image) for container in spec.init_containers),
        *(normalized_image_name(container.image) for container in spec.containers),
        *(normalized_image_name(v.image.reference) for v in spec.volumes if v.image is not None),
    )


def normalized_image_name(name: str) -> str:
    """Add the default tag to an image name without a tag."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"

"""Pickles that earlier versions made load: their modules and names stay importable."""

import base64
import pickle
import zlib

import pytest

from lazyflow import Delayed, WorkerDied, compute

#: Made by the version whose modules of the API stood in the root: `lazyflow.lazy`, ...
ROOT = (
    "eNrdV0trG1cU1siSJacx6SMNLZQ2izzkhew7d94QSp04CWRSpZikXQVxH2c8QySNGI3quBBIF3YSmEWhk1U3odvSbaHL"
    "Qvb9GV23+9KemZFlK3Fsx7EprlaX0b33PL7vfOfch5Wnf54u5b+7aSOZ7bBv1rxOuDq/GkSQJvVhr8/EPZDp9+nlH5RS"
    "6WH16XfKeP/2A9kiTWpL0GFr+f6kzodBJw56gzSZ6kAv+zTFuEjX07lWcmZ8cCVifX8+7MdBmG2tLV29tnjn5u1s+wcL"
    "cbe/sLrgq6sLK9Bb4OCFEcz311K3ktQvdUM57MCn6aPULSXn0ETTchjTPIc7TNOIrRPmcRNsqhNpUc64lsZpw59KZtph"
    "HyIWh1Hmksy8nXNL62jwBa9YtDLsQi9Gv6YvBz0JUbb127T1AJNV9cMODNK7aN0tbaQsme6yexBlX5KTvXY/HARZTKyT"
    "uuWk2mNd3DyX1GPo9jssBtzWaLkKDDdS7s8k9VtfXF1evH1rGS34J91pfxbDUpJz6F7TMw1paZohdAvjM4GapqnpkusW"
    "1RmhBMOCeczrcupPXX5WwPR0vzC990LMMRvcS5Pql4s371w9XMymX8JsEEdNQoFangmeMHSLS04smzJBBKWEawhcgZmv"
    "JLX25xD7Ye50ddhHBPOQjxY5ZWfkWiyH7a1tSF3IXWpyQTSMhBOVmdwyVcOiNnEcy9Md2/SIPoHVXwVWfxwWVttKriZC"
    "9Bbu4+frpdHv+mf1YrGB5o8G0sbIbNPhtiYNDJpQxwAhiKXpttANakgbHFrAqiQn2otxHAV8iGnNAtgqzBMM/1iBOM6h"
    "SypBl63854DPTtbp24j+OwX685l/TceiVBrUZLpFTIyb2lRY0jY08BgqkDqB/ulyjv5M+XDQx/Nuxa26024Njgbc851g"
    "EDe5FBoRjrRVgUIkDcENx9EsYWqEC03CSGR3k/+8cCp54RxcuWtIjgAhKtTbVTYOSopGwQpXye6Ag8h4aw8Vb4xcbTqm"
    "wU2LOxyFzqG2ZRNLMKoRyyPMJFRO8OOngh/Pyse94fqVZFoGX3fDN+60ykE7rVsbYzTdZissyNKT3T0rIjbw2xGgCuGx"
    "VlLtMA4dXNS6wxhPD9InxZ0SF5VeOIwzK1tC9SSp96MgjIJ4LUtLpT/EyelJMhPBIBxGIr+ztnk9bqithlHufGuY47zF"
    "kotFjprco8gGplHPlgw8zxHSIAwA+78jVeB71YKynvpnRrnzPxyLnv/R3dT/2C37n8z5Z/cxfJS30VYDwyCOpVGV2DiJ"
    "UN0RzJIgiK5LB7wJ2v5cNLUflf8DbQdhFMObD4g3/sHfJHMb/umk2h4gsQrtRjjcMozRasW4+7WHkdomlQq/mwgOeDiE"
    "GJ6tWqjazGKADQlHR0JNSY0J4B4UehOVj/+A7w17Ig7DTmavz6I4wPShvXfHTkUghyLzCBto2ws7WUBZGhr+mZ2eB+uo"
    "FYgInyvQOepGM/XKRuNWXk/Gktk8UjjL185moeyiaq1DFbVNJl7Is9sEZnPJdOYYqmFrOOjjGEhA1ySuNIdMNr6lQkEc"
    "ZaeX6e48ZHyAn278jeW2Ow3fvAvsma/H+87XboVQe6kQMMamrZqabeMgIQ3DEdxUiclsppsEbNPk+ZOQjfP5vMjnr8f/"
    "5b5VwNh8wlGN1ldY7EN0VDL9PiqEDERcyHSisLQF41HkYDJdHxXH3KbnTQCNWtSgCKhJdephm1VVR8OXE7OBG9b2+rjy"
    "O4L5vLS/4tjj0eBWDgXU+ougXrw2jLEGmhRMUxeSmDrhIHUBmqfiq97ULB3r3xJbPE1OjX2AKAox+cmJr/IqWQqKUJT7"
    "m4T+rSD0L8ef0Ns8q4xIdkg9ZsRleInL45GjxfJpQ3kFjUubNM4onyg8RZ92fPZsZ/T5LIgmdzx84Tjc1JntCVBtILZq"
    "SxsHWw2YCltshp1L+lQ77+DoyVimr1xHxC+NWL+D5u8Lx8eP0sLuRjr/L2PXrEo="
)

#: Made by the first version with `lazyflow.api`.
API = (
    "eNrdVztv21YUFmXJUtIYadDGSICizZCHPMjmJXl5SSAt6jyLMFWKIGmnQLgvmoQpUaDIOg5QIB3sJAC3MkOnLkHXomu3"
    "DgU6dOvP6N6taA9JWbYSx3YcGwXMiaLuvefxfec75z6uPcenK8XzIGulZwP6aNUNwpV5OvDnlyI68LoDny8HMkubSX9A"
    "+bIU2XfZlR+USuVx/XmmjPe20lMTm/MfWdq4JgO6WuxJmyzxg9jvD7N0KpD9/NMUZTxby+Y66ex4c2F1PhzEfpgvbVy7"
    "fmPx/u17+fIzC3FvsLCy4KGVhSXZX2DSDSM5P1jNnFravNwLRRLIT7InmVNJz4OJNhfMtrhFVUvVpJRIp1S1TV2lXEcu"
    "JjyLs5Y3lR7rhgMZ0TiMcpdE7u2cU1kDgy95RaOlpCf7Mfg1fcXvCxnlS7/NOt9A8upeGMhh9gCsO5X1jKbTPboso/xL"
    "eqLfHYRDP4+JBplTTet92oPFc2kzlr1BQGMJy1odR5HJesa8Y2nzzhfX7y7eu3MXLHgnnGlvBsJS0vPgXltjiEiCMdZ1"
    "oTITG5qg3DA44TqzKKEQlpyHvN7NvKkrL0qovn8TqN57Ke6YDpeztP7l4u371w8Wt+lXcBvGUdvCOuUqYUwn2EIaZlQw"
    "17I1TIjLJUIlbp6SNrqfy9gLC6fryQBQLMI+XPSU7dHr0AK6d7agdbFwqS0JMVTbRbrBdUFNGzOEuDCwaiKqIYNM4PV3"
    "iddfB4nXltJr8BA8lg/h883K6Ln5abN8WQcXDgfW1shsG1sWYgZXbYGQjSEtmDAK5WkLyzYRkgW0Snq8uxjHkc8SSG0e"
    "wGaBHqfwx5KM4wK+tOb36NL/DvrMZL2+Cww4VTJgPvevrbmmZpqMCIJsoDHnrmlwYZuuqhONc2uCAWeqBQNmqgfHADjD"
    "qTl1Z9ppyMMB+ELgD+O2YbqMGQbSkDQ0VUqia7alm0S1VeYKWx0J7k6toCigWlFA+1fxBhDEB5hKJXeU9f0So1Uyw1Hy"
    "M+R+JL2zi6K3Rq62DYxBDphKNalKrHHIl0V1pGJsUqxROcGRn0qOvKgehQbs1dJp4X/dC9+68yr77bxOY4zTdJcuUT9P"
    "T372DI/o0OtGEtQItnXSekCZDOCl0Uti2D3MnpVnCnip9cMkzq1sCtaztDmI/DDy49U8LbVBEkn4eCySwzCJeHFmY+N4"
    "WNBYCaPC+U5SYL3JlEtljtqQdZXpOrJsnVocmqNNKdFMrGLBEVbFbvWgrGXe7Ch33tmx+HkfPMi8D52q99Gcd24Pw0h1"
    "k7oUCWyaXLicWi5zKaaqCdOJqkvNxaB4E9T9uWxwPypHhbrDMIrl2w+Nt/6FZ5K9Le/9tN4dArlKDQdInKocI9aJYfUb"
    "DyeNDTqVfrcNRpFFLWrrtjRVmE+ItFzTJaZlwxAm1Anw1krdeVQ9GoO/m/R5HIZBbm9Ao9iHFIK92YmIIikSnnsFDbXr"
    "hkEeVJ6Olje73dVhDXQDkGFzJUqH3XimXtt4nNqbSVo6U0Qqz7HVc3koOyhc50AFboORF4vstl1CoedpQiMSWqIhuG1Y"
    "NoMWaKuqJBRNEPKzUk0+3lSTN+IjZUP4dOsfKL2d6fj2XWHXnD3dc852KojGKwUBMbYtZOqWxWwmMLY5M5FqQskbpiot"
    "mEu1vMjpOKd/lDn99Wjc7ieLWUgejuq1uURjT0aHJd2nQS2Ez+NSulOFZh05HlH2J93NUaHMbXjexsQ0iGVZmg7RcyKE"
    "TlzbNgjWEZQLmrhYXP0TQP29svdC2eVS4dQOBNzmy+BeupHEUA9tuPTDdVnaGK7KBK5JBEFMEC0lwrAN09zkbHpy7IOM"
    "ohAASI9/VVTMNb8MRXm4Qe7fSnL/cjTIvcWz2ohsB9R3RpyWr3B6PI50aDGJKK+hc2WDzjn1U4Vl4NO2V6OtzL6QB9E2"
    "dJAkiU3u2sS2XMoM6SJODGQhSbHrbrJavr68T3aL7g7ejKX76k1A/vKoArbpA3vC8umTrLS9ns3/B0Vsw7E="
)


@pytest.mark.parametrize("text", [ROOT, API], ids=["root", "api"])
def test_older_pickles_of_lazy_values_load_and_compute(text):
    values, function = pickle.loads(zlib.decompress(base64.b64decode(text)))
    error = values.pop(10)
    assert type(error) is WorkerDied
    assert error.args == ("x",)
    assert all(isinstance(value, Delayed) for value in values)
    assert compute(values) == (
        [4, "ABC", 3.0, 7, 1, [1, 2, 3], 10, 3, {"a": 3}, 4, {"a": 3, "b": [3]}],
    )
    assert function(-2).compute() == 2

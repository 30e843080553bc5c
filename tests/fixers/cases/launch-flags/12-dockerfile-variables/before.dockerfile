FROM scratch
ENV ATTN_IMPLEMENTATION=flash_attention_2 SEED=1
ENV USE_FLASH_ATTENTION 1
ARG INSTALL_FLASH_ATTN=true
ENV FLASH_ATTENTION_FORCE_BUILD=TRUE
RUN if [ "$ATTN_IMPLEMENTATION" = "flash_attention_2" ]; then pip install flash-attn; fi
CMD python train.py --attn_implementation ${ATTN_IMPLEMENTATION}
